package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// TestHooksCostNothingWithoutListeners: no allocation, and nothing is made of what
// happens.
func TestHooksCostNothingWithoutListeners(t *testing.T) {
	h := NewEvents().Hooks()
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
	e := NewEvents()
	slow, other := e.listen("", nil), e.listen("globex", nil)
	decide := e.Hooks().Watch()
	for i := range maxQueued + 10 {
		decide(handlers.Decision{Result: handlers.Result{Outcome: "scheduled"}, Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint(i))}})
	}
	decide(handlers.Decision{Result: handlers.Result{Outcome: "canceled"}, Key: timer.Key{TenantID: "globex"}})
	n := 0
	for range slow.queue { // it is closed
		n++
	}
	if n != maxQueued {
		t.Errorf("the slow one got %d events", n)
	}
	if event := string(<-other.queue); !strings.HasPrefix(event, "event: canceled\n") || len(other.queue) != 0 {
		t.Errorf("the other one got %s", event)
	}
	e.remove(slow)
	e.remove(other)
	if e.Hooks().Watch() != nil {
		t.Error("it watches without a listener")
	}
}
