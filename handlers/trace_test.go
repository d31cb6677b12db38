package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	producers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ours      = "00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-01"
)

// TestCommandsCarryTheSpanOfTheirHandling has a trace that notes what it is given.
func TestCommandsCarryTheSpanOfTheirHandling(t *testing.T) {
	t.Parallel()
	type key struct{}
	d := newHarness()
	var mu sync.Mutex
	var got []string
	d.trace = func(ctx context.Context, r handlers.Received) (context.Context, timer.Trace, func(handlers.Handled)) {
		mu.Lock()
		defer mu.Unlock()
		line := fmt.Sprintf("%s %s %s %s of %d, %t", r.Topic, r.Type, r.Key, r.ID, r.Commands, r.Trace.Parent == producers)
		return context.WithValue(ctx, key{}, line), timer.Trace{Parent: ours}, func(h handlers.Handled) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%s: %s %s %v", line, h.Outcome, h.Reason, h.Err))
		}
	}
	d.apply = func(c any) error {
		if cancel, ok := c.(timer.CancelTimer); ok && cancel.CommandID == "c-9" {
			return errors.New("disk full")
		}
		return nil
	}
	d.run(t, routing)
	from := []string{broker.MetaTopic, "timer.commands", envelope.HeaderTraceParent, producers}
	d.deliver(string(envelope.Schedule(command)), from...)
	many := timer.ScheduleTimers{TenantID: "acme", Version: command.Version, Commands: []timer.ScheduleTimer{command, command}}
	many.Commands[1].ServiceCallID = "order-2"
	d.deliver(string(envelope.ScheduleMany(many)), from...)
	d.deliver(string(envelope.Cancel(timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-2"}})), from...)
	d.deliver(`{}`, from...)
	d.deliver(string(envelope.Cancel(timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-9"}})))

	mu.Lock()
	defer mu.Unlock()
	want := []string{
		"timer.commands ScheduleTimer acme.order-1 c-1 of 1, true: scheduled  <nil>",
		"timer.commands ScheduleTimers acme. c-1 of 2, true: scheduled  <nil>",
		"timer.commands CancelTimer acme.order-1 c-2 of 1, true: canceled  <nil>",
		"timer.commands  .  of 0, true: invalid missing_field <nil>",
		" CancelTimer acme.order-1 c-9 of 1, false: failed  cancel acme.order-1: disk full",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(d.applied) != 4 {
		t.Fatalf("applied %d commands, want 4", len(d.applied))
	}
	for _, c := range d.applied {
		trace := timer.Trace{}
		switch c := c.(type) {
		case timer.ScheduleTimer:
			trace = c.Trace
		case timer.CancelTimer:
			trace = c.Trace
		}
		if trace.Parent != ours {
			t.Errorf("%+v carries %q, want that of its span", c, trace.Parent)
		}
	}
}
