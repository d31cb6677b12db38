package timer_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func schedule(change func(*timer.ScheduleTimer)) timer.ScheduleTimer {
	c := timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "sc-1"},
		Version: timer.Version{TimestampMS: 1, CommandID: "cmd-1"},
		DueAt:   noon,
	}
	change(&c)
	return c
}

func TestCommandsValidateEveryField(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*timer.ScheduleTimer)
		want   timer.Reason
		cancel timer.Reason // of the CancelTimer with the same fields
	}{
		{"valid", func(*timer.ScheduleTimer) {}, "", ""},
		{"with correlation id", func(c *timer.ScheduleTimer) { c.CorrelationID = "req-7f3a" }, "", ""},
		{"due in the past", func(c *timer.ScheduleTimer) { c.DueAt = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) }, "", ""},
		{"no tenant", func(c *timer.ScheduleTimer) { c.TenantID = "" }, timer.ReasonMissingField, timer.ReasonMissingField},
		{"malformed tenant", func(c *timer.ScheduleTimer) { c.TenantID = timer.NoTenant }, timer.ReasonBadField, timer.ReasonBadField},
		{"no service call", func(c *timer.ScheduleTimer) { c.ServiceCallID = "" }, timer.ReasonMissingField, timer.ReasonMissingField},
		{"no id", func(c *timer.ScheduleTimer) { c.CommandID = "" }, timer.ReasonMissingField, timer.ReasonMissingField},
		{"negative timestamp", func(c *timer.ScheduleTimer) { c.TimestampMS = -1 }, timer.ReasonBadField, timer.ReasonBadField},
		{"no due time", func(c *timer.ScheduleTimer) { c.DueAt = time.Time{} }, timer.ReasonMissingField, ""},
		{"due too late", func(c *timer.ScheduleTimer) { c.DueAt = noon.AddDate(200, 0, 0) }, timer.ReasonBadTime, ""},
		{"malformed correlation id", func(c *timer.ScheduleTimer) { c.CorrelationID = "a b" }, timer.ReasonBadField, timer.ReasonBadField},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := schedule(test.change)
			check(t, "ScheduleTimer", c.Validate(), test.want)
			cancel := timer.CancelTimer{Key: c.Key, Version: c.Version, CorrelationID: c.CorrelationID}
			check(t, "CancelTimer", cancel.Validate(), test.cancel)
		})
	}
}

// Dashboards and alerts are built on these words.
func TestOutcomesHaveStableNames(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[timer.Outcome]string{
		timer.DidSchedule:    "scheduled",
		timer.DidReschedule:  "rescheduled",
		timer.DidCancel:      "canceled",
		timer.WasSame:        "duplicate",
		timer.WasStale:       "stale",
		timer.WasReached:     "already_reached",
		timer.WasCanceled:    "already_canceled",
		timer.WasTied:        "stale_same_time",
		0:                    "unknown",
		timer.WasPastExpiry:  "past_expiry",
		timer.WasChanged:     "changed",
		timer.WasChanged + 1: "unknown",
		255:                  "unknown",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("%d: got %s, want %s", outcome, got, want)
		}
	}
}
