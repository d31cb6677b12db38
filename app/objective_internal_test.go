package app

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestEventsMissTheObjectiveOfTheirTenant has events of two tenants, two seconds late.
func TestEventsMissTheObjectiveOfTheirTenant(t *testing.T) {
	t.Parallel()
	due := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	limits, err := quota.New(quota.Config{
		Default: quota.Limits{Objective: time.Second}, Tenants: map[timer.TenantID]quota.Limits{"batch": {Objective: time.Minute}, "fast": {}},
	}, timer.ClockFunc(func() time.Time { return due }), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		limits *quota.Limiter
		tenant string
		late   time.Duration
		missed int64
	}{
		"without quotas":          {nil, "acme", 2 * time.Second, 1},
		"without quotas, in time": {nil, "acme", time.Second, 0},
		"by default":              {limits, "acme", 2 * time.Second, 1},
		"of its own":              {limits, "batch", 2 * time.Second, 0},
		"of its own, missed":      {limits, "batch", 2 * time.Minute, 1},
		"an override without one": {limits, "fast", 2 * time.Second, 1},
	} {
		c := new(Counters)
		c.limits.Store(test.limits)
		e := timer.DueTimeReached{Key: timer.Key{TenantID: timer.TenantID(test.tenant), ServiceCallID: "a"}, DueAt: due}
		m := message.NewMessage(envelope.EventID(e), nil)
		m.Metadata.Set(envelope.HeaderTenantID, test.tenant)
		c.published(due.Add(test.late), []*message.Message{m})
		if l := c.Lateness(); l.Missed != test.missed || l.Events != 1 {
			t.Errorf("%s: %+v, want %d missed", name, l, test.missed)
		}
	}
}
