package rabbitmq_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// ownsWhole has two databases whose names begin alike claim the commands, each again
// with another broker, as after a restart.
func ownsWhole(t *testing.T, ready func() *rabbitmq.Broker) {
	t.Helper()
	claim := func(owner broker.Owner, takeover bool) broker.Owner {
		t.Helper()
		got, err := ready().Claim(t.Context(), "timer-service", owner, takeover)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	long := "sqlite /" + strings.Repeat("folder/", 40)
	first := broker.Owner{Database: "9d2c7a52-7fd8-4ad4-b0ad-4a2d36e8b6a1", Broker: "QWERTZUI", Name: long + "first.db"}
	second := broker.Owner{Database: "9d2c7a52-7fd8-4ad4-b0ad-4a2d36e8b6a2", Broker: "ASDFGHJK", Name: long + "second.db"}
	for range 2 {
		if got := claim(first, false); got != first {
			t.Errorf("the owner is %v, want %v", got, first)
		}
	}
	moved := first
	moved.Name = long + "moved.db"
	if got := claim(moved, false); got.Database != first.Database || got.Broker != first.Broker || got.Name == moved.Name {
		t.Errorf("for the database that was moved the owner is %v", got)
	}
	if got := claim(second, false); got.Database == second.Database || got.Broker != first.Broker {
		t.Errorf("for another one the owner is %v", got)
	}
	second.Broker = first.Broker
	for _, takeover := range []bool{true, false} {
		if got := claim(second, takeover); got != second {
			t.Errorf("the owner is %v, want %v", got, second)
		}
	}
	if got := claim(first, false); got.Database == first.Database {
		t.Errorf("after a takeover the owner is %v", got)
	}
}

func TestOwnerWithALongName(t *testing.T) {
	t.Parallel()
	r := open(t)
	ownsWhole(t, func() *rabbitmq.Broker { return r.ready(r.opt) })
}

func TestOwnerInAVirtualHostWithALongName(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	vhost := strings.Repeat("v", 80)
	o.ctl("add_vhost", vhost)
	o.ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
	u, err := url.Parse(o.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + vhost
	ownsWhole(t, func() *rabbitmq.Broker { return r.ready(rabbitmq.Options{URL: u.String()}) })
}
