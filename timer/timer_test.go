package timer_test

import (
	"fmt"
	"strings"
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

func TestScheduleTimersValidateAsAWhole(t *testing.T) {
	t.Parallel()
	message := func(n int) timer.ScheduleTimers {
		first := schedule(func(c *timer.ScheduleTimer) { c.CorrelationID = "req-7f3a" })
		m := timer.ScheduleTimers{TenantID: first.TenantID, Version: first.Version}
		for i := range n {
			first.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("sc-%d", i))
			m.Commands = append(m.Commands, first)
		}
		return m
	}
	for _, test := range []struct {
		name   string
		n      int
		change func(*timer.ScheduleTimers)
		want   timer.Reason
		detail string // the detail begins so
	}{
		{"one", 1, func(*timer.ScheduleTimers) {}, "", ""},
		{"as many as there may be", 500, func(*timer.ScheduleTimers) {}, "", ""},
		{"none", 0, func(*timer.ScheduleTimers) {}, timer.ReasonMissingField, "timers is empty"},
		{"one too many", 501, func(*timer.ScheduleTimers) {}, timer.ReasonBadField, "timers has more than 500"},
		{"no tenant", 1, func(m *timer.ScheduleTimers) { m.TenantID = "" }, timer.ReasonMissingField, "tenantId is empty"},
		{"no id", 1, func(m *timer.ScheduleTimers) { m.CommandID = "" }, timer.ReasonMissingField, "id is empty"},
		{"malformed correlation id", 1, func(m *timer.ScheduleTimers) { m.Commands[0].CorrelationID = " " }, timer.ReasonBadField, "correlationId"},
		{"no service call", 20, func(m *timer.ScheduleTimers) { m.Commands[17].ServiceCallID = "" }, timer.ReasonMissingField, "timers[17].serviceCallId is empty"},
		{"no due time", 20, func(m *timer.ScheduleTimers) { m.Commands[17].DueAt = time.Time{} }, timer.ReasonMissingField, "timers[17].dueAt is missing"},
		{"due too late", 20, func(m *timer.ScheduleTimers) { m.Commands[19].DueAt = noon.AddDate(200, 0, 0) }, timer.ReasonBadTime, "timers[19].dueAt"},
		{"a service call twice", 20, func(m *timer.ScheduleTimers) { m.Commands[9].ServiceCallID = "sc-3" }, timer.ReasonBadField, `timers[9].serviceCallId "sc-3" is also in timers[3]`},
		{"the first mistake counts", 20, func(m *timer.ScheduleTimers) { m.Commands[9].ServiceCallID, m.Commands[8].DueAt = "sc-3", time.Time{} }, timer.ReasonMissingField, "timers[8].dueAt"},
		{"another tenant", 3, func(m *timer.ScheduleTimers) { m.Commands[2].TenantID = "evil" }, timer.ReasonTenantMismatch, `timers[2].tenantId "evil"`},
		{"another version", 3, func(m *timer.ScheduleTimers) { m.Commands[0].CommandID = "cmd-2" }, timer.ReasonBadField, "timers[0].version"},
		{"another correlation id", 3, func(m *timer.ScheduleTimers) { m.Commands[1].CorrelationID = "" }, timer.ReasonBadField, "timers[1].version, correlationId"},
		{"another trace", 3, func(m *timer.ScheduleTimers) { m.Commands[1].Trace.Parent = "x" }, timer.ReasonBadField, "timers[1].version, correlationId or trace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := message(test.n)
			test.change(&m)
			err := m.Validate()
			check(t, "ScheduleTimers", err, test.want)
			if err != nil && !strings.HasPrefix(err.Error(), "invalid: "+test.detail) {
				t.Errorf("got %v, want it to begin with %s", err, test.detail)
			}
		})
	}
}
