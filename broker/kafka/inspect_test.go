package kafka

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

func TestPartitionThatLostAllHasNothingOlderThanNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	first := now.Add(-time.Hour)
	for name, test := range map[string]struct {
		logs []broker.Log
		want time.Time
	}{
		"never used":                  {[]broker.Log{{}}, time.Time{}},
		"with records":                {[]broker.Log{{Oldest: first, Last: 3}}, first},
		"all records expired":         {[]broker.Log{{Last: 9}}, now},
		"one of them lost more":       {[]broker.Log{{Oldest: first, Last: 3}, {Oldest: first.Add(time.Minute), Last: 9}, {}}, first.Add(time.Minute)},
		"one of them lost everything": {[]broker.Log{{Last: 9}, {Oldest: first, Last: 3}}, now},
	} {
		if got := oldest(test.logs, now); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
