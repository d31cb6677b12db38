package postgres_test

import (
	"slices"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestUnclaimedEventsHaveNoHandlerAnywhere has events that wait while instances with and without
// handlers for them come and go.
func TestUnclaimedEventsHaveNoHandlerAnywhere(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	for i, call := range []string{"a", "invoice-1", "order", "order-1", "order-2", "orders"} {
		emit(t, s, timer.ServiceCallID(call))
		must(t, s.Defer(t.Context(), outbox.Deferral{Place: outbox.Place{Seq: int64(i + 1)}, Destination: call, Reason: "no handler", RetryAt: noon, Untried: true, Unclaimed: true}))
	}
	expect := func(want ...timer.ServiceCallID) {
		t.Helper()
		got, err := s.Unclaimed(t.Context(), 3)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("no instance has a handler for %v, want %v", got, want)
		}
	}
	handles := func(prefixes ...string) outbox.Lease {
		l, err := s.Own(t.Context(), outbox.Receivers{Kind: outbox.ToHandlersOnly, Prefixes: prefixes})
		must(t, err)
		return l
	}
	expect("a", "invoice-1", "order")
	orders := handles("order-")
	expect("a", "invoice-1", "order")
	first := handles("a", "in")
	expect("order", "orders")
	all := handles("")
	expect()
	all.Release()
	orders.Release()
	expect("order", "order-1", "order-2")
	first.Release()
	expect("a", "invoice-1", "order")
}

// TestInstancesOfBothReleases has an instance whose receivers are not known, as one of 0.1.0.
func TestInstancesOfBothReleases(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	defer own(t, s).Release()
	for _, kind := range []outbox.Kind{outbox.ToBroker, outbox.ToHandlers, outbox.ToHandlersOnly} {
		l, err := s.Own(t.Context(), outbox.Receivers{Kind: kind})
		must(t, err)
		defer own(t, s).Release()
		l.Release()
	}
}
