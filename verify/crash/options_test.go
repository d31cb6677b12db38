package crash

import "testing"

func TestServersGoWithModesThatCanHaveThem(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opt Options
		ok  bool
	}{
		"one server":                           {Options{}, true},
		"three servers":                        {Options{Servers: 3, Sync: "always"}, true},
		"three servers, one of which is wiped": {Options{Servers: 3, Mode: WipeServer}, true},
		"two servers":                          {Options{Servers: 2}, false},
		"one server that is wiped":             {Options{Mode: WipeServer}, false},
		"a sync interval of one server":        {Options{Sync: "always"}, false},
		"three servers within the service":     {Options{Servers: 3, Mode: Embedded}, false},
		"three servers that are emptied":       {Options{Servers: 3, Mode: EmptyBroker}, false},
		"three servers of Kafka":               {Options{Servers: 3, Broker: Kafka}, false},
	} {
		if err := tt.opt.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
