package admin

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// TestHooksCostNothingWithoutListeners: no allocation, and nothing is made of what
// happens.
func TestHooksCostNothingWithoutListeners(t *testing.T) {
	h := NewEvents(new(app.Counters)).Hooks()
	events, messages := make([]timer.DueTimeReached, 1000), make([]*message.Message, 1000)
	for i := range messages {
		messages[i] = message.NewMessage(uuid.NewString(), nil)
	}
	if n := testing.AllocsPerRun(100, func() {
		if h.Watch() != nil {
			t.Error("it watches")
		}
		h.Reached(events)
		h.Published(time.Time{}, messages)
		h.Parked(nil, "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlowListenerIsDropped: it delays nothing, others get all, and it gets to know.
func TestSlowListenerIsDropped(t *testing.T) {
	t.Parallel()
	e := NewEvents(new(app.Counters))
	slow := e.listen("")
	other := e.listen("globex")
	decide := e.Hooks().Watch()
	for i := range maxQueued + 10 {
		decide(handlers.Decision{Result: handlers.Result{Outcome: "scheduled"}, Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint(i))}})
	}
	decide(handlers.Decision{Result: handlers.Result{Outcome: "canceled"}, Key: timer.Key{TenantID: "globex"}})
	select {
	case <-slow.slow:
	default:
		t.Error("the slow one is still there")
	}
	if _, ok := (<-other.queue).(canceledEvent); !ok || len(other.queue) != 0 || len(slow.queue) != maxQueued {
		t.Errorf("%d and %d queued", len(slow.queue), len(other.queue))
	}
	var last any
	e.serve(withAccess(t.Context(), access{}), &api{}, slow, new(eventsInput), nil, func(event any) error {
		last = event
		return nil
	})
	if end, ok := last.(endEvent); !ok || end.Reason != "too_slow" {
		t.Errorf("the last event: %+v", last)
	}
	e.remove(slow)
	e.remove(other)
	if e.Hooks().Watch() != nil {
		t.Error("it watches without a listener")
	}
}

// TestListenersAreBounded to fifty.
func TestListenersAreBounded(t *testing.T) {
	t.Parallel()
	var c connections
	var first func()
	for i := range 51 {
		end, err := c.begin("")
		if (err == nil) != (i < 50) {
			t.Errorf("listener %d: %v", i, err)
		}
		if i == 0 {
			first = end
		}
	}
	first()
	if _, err := c.begin(""); err != nil {
		t.Error("there is no place for another one:", err)
	}
}

// An idle database has nothing.
type idle struct{ timer.Reader }

// Stats returns nothing.
func (idle) Stats(context.Context, timer.TenantID) (timer.Stats, error) { return timer.Stats{}, nil }

// Overdue returns nothing.
func (idle) Overdue(context.Context, timer.TenantID, time.Time) (timer.Overdue, error) {
	return timer.Overdue{}, nil
}

// TestListenersHearOfTheService: a status each second and a heartbeat, until they go.
func TestListenersHearOfTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{timers: idle{}}
		e := NewEvents(new(app.Counters))
		for name, test := range map[string]struct {
			who               access
			only              []string
			status, heartbeat int
		}{
			"all tenants":  {access{}, nil, 60, 5},
			"one tenant":   {access{tenant: "acme"}, nil, 0, 5},
			"without them": {access{}, []string{"reached"}, 0, 5},
			"only status":  {access{}, []string{"status"}, 60, 5},
		} {
			l := e.listen(test.who.tenant)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute+time.Millisecond)
			status, heartbeat := 0, 0
			e.serve(withAccess(ctx, test.who), a, l, &eventsInput{Only: test.only}, nil, func(event any) error {
				switch s := event.(type) {
				case Status:
					status++
					if s.Error != "" {
						t.Errorf("%+v", s)
					}
				case heartbeatEvent:
					heartbeat++
				default:
					t.Errorf("%+v", event)
				}
				return nil
			})
			stop()
			e.remove(l)
			if status != test.status || heartbeat != test.heartbeat {
				t.Errorf("%s: %d and %d, want %d and %d", name, status, heartbeat, test.status, test.heartbeat)
			}
		}
	})
}
