package app_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// A receiver is an instance, and notes the events that it brings to its handlers or its broker.
type receiver struct {
	*app.App
	mu    sync.Mutex
	calls []string // service calls of its events, once for each event
}

func (r *receiver) note(call timer.ServiceCallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, string(call))
}

// received returns how many events it has whose service call has a prefix.
func (r *receiver) received(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// distinct returns how many timers have an event at any of the receivers.
func distinct(of ...*receiver) int {
	calls := make(map[string]bool)
	for _, r := range of {
		r.mu.Lock()
		for _, call := range r.calls {
			calls[call] = true
		}
		r.mu.Unlock()
	}
	return len(calls)
}

// newReceiver makes an instance with handlers for some prefixes. It needs no broker if it has any.
func newReceiver(t *testing.T, url, process string, b broker.Broker, prefixes ...string) *receiver {
	t.Helper()
	a, err := app.New(instance{openPostgres(t, url, process), process}, b, quiet, app.Options{PollingInterval: 100 * time.Millisecond})
	must(t, err)
	r := &receiver{App: a}
	for _, prefix := range prefixes {
		a.Timers().OnDue(prefix, func(_ context.Context, e timer.DueTimeReached) error {
			if !strings.HasPrefix(string(e.ServiceCallID), prefix) {
				t.Errorf("the handler for %q of %s has %s", prefix, process, e.Key)
			}
			r.note(e.ServiceCallID)
			return nil
		}, app.OnDueOptions{})
	}
	if b != nil && prefixes == nil {
		events, err := b.Tail().Subscribe(t.Context(), b.Routing().Events)
		must(t, err)
		go func() {
			for m := range events {
				r.note(timer.ServiceCallID(m.Metadata.Get(envelope.HeaderServiceCallID)))
				m.Ack()
			}
		}()
	}
	return r
}

// awaited returns a value that comes from a channel within a minute.
func awaited[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	eventually(t, what, func() bool {
		select {
		case v = <-c:
			return true
		default:
			return false
		}
	})
	return v
}

// book schedules timers of each prefix, which are due now.
func (r *receiver) book(t *testing.T, n int, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		for range n {
			must(t, r.Timers().Schedule(t.Context(), in(prefix+rand.Text(), 0)))
		}
	}
}

// TestInstancesThatBringEventsElsewhere has two instances on a database of which one has no
// broker, or no handlers, and starts them in each order: the second one is refused by the name
// of the first, which gets all events, also of timers that the second one has scheduled.
func TestInstancesThatBringEventsElsewhere(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name     string
		broker   bool
		prefixes []string
		does     string
	}{
		{"a broker", true, nil, "brings events to a broker"},
		{"handlers and a broker", true, []string{"order-"}, "has handlers of OnDue and a broker"},
		{"handlers", false, []string{"order-"}, "has handlers of OnDue and no broker"},
	}
	host, err := os.Hostname()
	must(t, err)
	for i, first := range kinds {
		for j, second := range kinds {
			t.Run(fmt.Sprintf("%s, then %s", first.name, second.name), func(t *testing.T) {
				t.Parallel()
				url := pgtest.URL(t)
				brokers := map[bool]broker.Broker{true: inMemory(t)}
				a, b := newReceiver(t, url, "v1", brokers[first.broker], first.prefixes...), newReceiver(t, url, "v2", brokers[second.broker], second.prefixes...)
				start(t, "the first", a.App)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- b.Run(ctx) }()
				if i == j {
					select {
					case <-b.Running():
					case err := <-ended:
						t.Fatal(err)
					}
				}
				a.book(t, 30, "order-")
				b.book(t, 30, "order-")
				eventually(t, "all are received", func() bool { return distinct(a, b) == 60 })
				if i == j {
					stop()
					must(t, <-ended)
					return
				}
				if n := a.received("order-"); n != 60 {
					t.Errorf("the first one has %d of 60 events", n)
				}
				err := awaited(t, "the second one is refused", ended)
				for _, want := range []string{fmt.Sprintf("process %d on %s", os.Getpid(), host), "version v1", first.does, second.does} {
					if err == nil || !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), want) {
						t.Errorf("the second one: %v, want %q", err, want)
					}
				}
			})
		}
	}
}

// TestTwoThatStartAtOnce brings events elsewhere in each of two instances: one of them is
// refused, and the other one gets all events.
func TestTwoThatStartAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			both := []*receiver{newReceiver(t, url, "v1", inMemory(t)), newReceiver(t, url, "v2", nil, "order-")}
			both[0].book(t, 30, "order-")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan int, 2)
			errs := make([]error, 2)
			for i, r := range both {
				go func() {
					errs[i] = r.Run(ctx)
					ended <- i
				}()
			}
			refused := awaited(t, "one is refused", ended)
			other := both[1-refused]
			if !errors.Is(errs[refused], timer.ErrFatal) {
				t.Error(errs[refused])
			}
			other.book(t, 30, "order-")
			eventually(t, "all are received", func() bool { return other.received("") == 60 })
			if n := both[refused].received(""); n != 0 {
				t.Errorf("the one that is refused has %d events", n)
			}
			stop()
			<-ended
			must(t, errs[1-refused])
		})
	}
}

// TestRollingDeploymentOfHandlers replaces an instance with one that has a further handler, while
// both book timers of both kinds: none is lost, and none is taken by an instance without a handler
// for it. Neither is red while both run, also if events wait for the new one. Once that has ended
// events wait, and the old one is red by their prefix. It is red before it has fired any itself.
func TestRollingDeploymentOfHandlers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	old, replacement := newReceiver(t, url, "v1", nil, "order-"), newReceiver(t, url, "v2", nil, "order-", "invoice-")
	red := func(r *receiver) string {
		for _, c := range r.Checks(t.Context()) {
			if c.Red && c.Part == "forwarder" { // on a busy machine others have no answer in time
				return c.Part + ": " + c.Reason
			}
		}
		return ""
	}
	start(t, "the old one", old.App)
	old.book(t, 50, "order-")
	eventually(t, "all are received", func() bool { return old.received("order-") == 50 })
	stop := start(t, "the new one", replacement.App)
	booked := make(chan struct{})
	go func() {
		defer close(booked)
		for range 10 {
			old.book(t, 10, "order-", "invoice-")
			replacement.book(t, 10, "order-", "invoice-")
		}
	}()
	for waits := true; waits; {
		for _, r := range []*receiver{old, replacement} {
			if why := red(r); why != "" {
				t.Fatal(why)
			}
		}
		select {
		case <-booked:
			waits = replacement.received("invoice-") < 200 || old.received("order-")+replacement.received("order-") < 250
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := old.received("invoice-"); n != 0 {
		t.Errorf("the old one has %d events without a handler", n)
	}
	stop()
	old.book(t, 10, "order-", "invoice-")
	eventually(t, "red by the prefix", func() bool {
		why := red(old)
		return strings.HasPrefix(why, "forwarder: ") && strings.Contains(why, "10 invoice-…") && !strings.Contains(why, "order-")
	})
	last := newReceiver(t, url, "v3", nil, "invoice-")
	running(t, "the last one", last.Run)
	eventually(t, "the rest is handled, and none is red", func() bool {
		return last.received("invoice-") == 10 && old.received("order-")+replacement.received("order-") == 260 && red(old)+red(last) == ""
	})
	if n := distinct(old, replacement, last); n != 470 {
		t.Errorf("%d of 470 timers have an event", n)
	}
}
