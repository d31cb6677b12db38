package envelope_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A message has space for more than 500 typical timers. A body of more bytes or of
// more timers is refused.
func TestScheduleTimersKeepToTheLimits(t *testing.T) {
	t.Parallel()
	decode := func(c timer.ScheduleTimers) (timer.Reason, string) {
		m, err := envelope.Decode(envelope.ScheduleMany(c))
		if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
			return invalid.Reason, invalid.Detail
		}
		if diff := cmp.Diff(any(c), m.Payload); diff != "" {
			t.Errorf("%d timers (-want +got):\n%s", len(c.Commands), diff)
		}
		return "", ""
	}
	long := func(n, bytes int) timer.ScheduleTimers {
		c := many(n)
		for i := range c.Commands {
			c.Commands[i].ServiceCallID = timer.ServiceCallID(fmt.Sprintf("%0*d", bytes, i))
		}
		return c
	}
	for _, test := range []struct {
		name   string
		c      timer.ScheduleTimers
		reason timer.Reason
		detail string
	}{
		{"1", many(1), "", ""},
		{"500", many(500), "", ""},
		{"501", many(501), timer.ReasonBadField, "more than 500"},
		{"700", many(700), timer.ReasonBadField, "more than 500"},
		{"720", many(720), timer.ReasonTooLarge, "bytes"},
		{"500 of 74 bytes", long(500, 74), "", ""},
		{"500 of 76 bytes", long(500, 76), timer.ReasonTooLarge, "bytes"},
		{"350 of 128 bytes", long(350, 128), "", ""},
		{"360 of 128 bytes", long(360, 128), timer.ReasonTooLarge, "bytes"},
	} {
		if reason, detail := decode(test.c); reason != test.reason || !strings.Contains(detail, test.detail) {
			t.Errorf("%s: got %q, %s, want %q", test.name, reason, detail, test.reason)
		}
	}
}

// many returns a ScheduleTimers of n commands with ids of 36 characters.
func many(n int) timer.ScheduleTimers {
	c := timer.ScheduleTimers{TenantID: goldenSchedule.TenantID, Version: goldenSchedule.Version}
	for i := range n {
		command := goldenSchedule
		command.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("0190b5a2-7c3e-7d4f-8a1b-%012d", i))
		command.DueAt = command.DueAt.Add(time.Duration(i) * time.Second)
		c.Commands = append(c.Commands, command)
	}
	return c
}
