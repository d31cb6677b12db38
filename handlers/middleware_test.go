package handlers_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMiddlewareOfAHostMayChangeAMessage has one that takes a seal off each body, and calls
// the others a second time.
func TestMiddlewareOfAHostMayChangeAMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.middleware = []message.HandlerMiddleware{func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				msg.Payload = bytes.TrimPrefix(msg.Payload, []byte("sealed"))
				if _, err := next(msg); err != nil {
					return nil, err
				}
				return next(msg)
			}
		}}
		d.run(t, routing)
		if !d.deliver("sealed" + order("acme", 0)) {
			t.Fatal("not acked")
		}
		if len(d.applied) != 2 || len(d.dead) != 0 {
			t.Errorf("%d commands applied, want 2; dead letters: %v", len(d.applied), d.dead)
		}
	})
}

// many returns the body of a ScheduleTimers with n timers.
func many(tenant timer.TenantID, n int) string {
	c := timer.ScheduleTimers{TenantID: tenant, Version: timer.Version{TimestampMS: noon.UnixMilli() + 1, CommandID: "many"}}
	for i := range n {
		one := command
		one.TenantID, one.Version = tenant, c.Version
		one.ServiceCallID = timer.ServiceCallID(fmt.Sprint("many-", i))
		one.DueAt = command.DueAt.Add(-time.Duration(i) * time.Second)
		c.Commands = append(c.Commands, one)
	}
	return string(envelope.ScheduleMany(c))
}

func TestTimersOfOneMessageAreAppliedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.run(t, routing)
		if !d.deliver(many("acme", 5), "correlationId", "from-header") {
			t.Fatal("not acked")
		}
		if len(d.applied) != 5 || len(d.commits) != 1 {
			t.Errorf("%d applied in %d commits, want 5 in one", len(d.applied), len(d.commits))
		}
		for _, c := range d.applied {
			if c := c.(timer.ScheduleTimer); c.CorrelationID != "from-header" || c.CommandID != "many" {
				t.Errorf("applied %+v", c)
			}
		}
		if want := []time.Time{command.DueAt.Add(-4 * time.Second)}; cmp.Diff(want, d.wakes) != "" {
			t.Errorf("notified the poller of %v, want the earliest, %v", d.wakes, want)
		}
		if len(d.results) != 5 || d.results[4] != (handlers.Result{Type: "ScheduleTimers", Outcome: "scheduled"}) {
			t.Errorf("counted %v, want one a timer", d.results)
		}
	})
}

// TestTimersOfOneMessageAreRefusedTogether has one of them refused by the database,
// and one that is due too late.
func TestTimersOfOneMessageAreRefusedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.apply = func(c any) error {
			if c.(timer.ScheduleTimer).ServiceCallID == "many-3" {
				return timer.Invalid(timer.ReasonRefused, "many-3: no such service call")
			}
			return nil
		}
		d.run(t, routing)
		late := strings.Replace(many("acme", 3), "2026-01-01T12:59:59", "2026-01-03T12:59:59", 1)
		if !d.deliver(many("acme", 5)) || !d.deliver(late) {
			t.Fatal("not acked")
		}
		for i, want := range []string{"many-3: no such service call", "timers[1].dueAt 2026-01-03T12:59:59Z is beyond the horizon"} {
			if got := d.dead[i].Metadata.Get(envelope.HeaderDeadLetterDetail); !strings.HasPrefix(got, want) {
				t.Errorf("detail %q, want %q", got, want)
			}
		}
		if want := []handlers.Result{{Type: "ScheduleTimers", Outcome: "invalid"}, {Type: "ScheduleTimers", Outcome: "invalid"}}; cmp.Diff(want, d.results) != "" {
			t.Errorf("counted %v, want each message once", d.results)
		}
	})
}
