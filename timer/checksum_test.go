package timer_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func summed() timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:           timer.Key{TenantID: "acme", ServiceCallID: "sc-1"},
		Version:       timer.Version{TimestampMS: 1_900_000_000_000, CommandID: "command"},
		DueAt:         time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC),
		CorrelationID: "order-7",
		Data:          `{"attempt":3}`,
	}
}

func entryOf(c timer.ScheduleTimer) timer.Entry {
	return timer.Entry{Key: c.Key, Version: c.Version, DueAt: timer.RoundUp(c.DueAt), CorrelationID: c.CorrelationID, Data: c.Data}
}

// TestChecksumIsKept holds what databases have already: a change of the function would
// set all their timers aside.
func TestChecksumIsKept(t *testing.T) {
	t.Parallel()
	if got, want := summed().Checksum(), int32(362578270); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func TestChecksumOfACommandIsThatOfItsTimer(t *testing.T) {
	t.Parallel()
	c := summed()
	c.DueAt = c.DueAt.Add(time.Microsecond)
	if got, want := entryOf(c).Checksum(), c.Checksum(); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func TestChecksumCoversAllThatAnEventSays(t *testing.T) {
	t.Parallel()
	seen := map[int32]string{summed().Checksum(): "nothing"}
	for what, change := range map[string]func(*timer.ScheduleTimer){
		"tenant":                 func(c *timer.ScheduleTimer) { c.TenantID = "bcme" },
		"service call":           func(c *timer.ScheduleTimer) { c.ServiceCallID = "sc-2" },
		"tenant to service call": func(c *timer.ScheduleTimer) { c.TenantID, c.ServiceCallID = "acm", "esc-1" },
		"timestamp":              func(c *timer.ScheduleTimer) { c.TimestampMS++ },
		"command id":             func(c *timer.ScheduleTimer) { c.CommandID = "commane" },
		"due time":               func(c *timer.ScheduleTimer) { c.DueAt = c.DueAt.Add(time.Millisecond) },
		"correlation":            func(c *timer.ScheduleTimer) { c.CorrelationID = "order-6" },
		"data":                   func(c *timer.ScheduleTimer) { c.Data = `{"attempt":2}` },
		"no data":                func(c *timer.ScheduleTimer) { c.Data = "" },
	} {
		c := summed()
		change(&c)
		if other, same := seen[c.Checksum()]; same {
			t.Errorf("a change of %s has the checksum of one of %s", what, other)
		}
		seen[c.Checksum()] = what
	}
}

func BenchmarkChecksum(b *testing.B) {
	e := entryOf(summed())
	e.ServiceCallID, e.CommandID, e.CorrelationID = "0197f5a0-0000-7000-8000-00000000002a", "0197f5a0-0000-7000-9000-00000000002a", "0197f5a0-0000-7000-a000-00000000002a"
	b.ReportAllocs()
	for b.Loop() {
		e.Checksum()
	}
}
