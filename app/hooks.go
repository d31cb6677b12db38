package app

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// Hooks are called when something happens, by many goroutines at once. They must not
// block, nor keep or change what they are given. Those that are nil are not called.
type Hooks struct {
	Handled   func(handlers.Result)                             // what became of a delivery
	Committed func(commands int, took time.Duration, err error) // commands were written together
	Polled    func(took time.Duration, err error)               // a poll has ended
	Reached   func(events []timer.DueTimeReached)               // timers have fired, or expired: see [timer.DueTimeReached.State]
	Published func(at time.Time, events []*message.Message)     // the broker has acked events, see [envelope.DueAt]
	Parked    func(event *message.Message, reason string)       // an event was refused for good
	Watch     func() func(handlers.Decision)                    // called once a delivery: returns what to call with what became of each of its commands, nil for nothing
}

// withDefaults returns hooks of which each may be called.
func (h Hooks) withDefaults() Hooks {
	if h.Handled == nil {
		h.Handled = func(handlers.Result) {}
	}
	if h.Committed == nil {
		h.Committed = func(int, time.Duration, error) {}
	}
	if h.Polled == nil {
		h.Polled = func(time.Duration, error) {}
	}
	if h.Reached == nil {
		h.Reached = func([]timer.DueTimeReached) {}
	}
	if h.Published == nil {
		h.Published = func(time.Time, []*message.Message) {}
	}
	if h.Parked == nil {
		h.Parked = func(*message.Message, string) {}
	}
	if h.Watch == nil {
		h.Watch = func() func(handlers.Decision) { return nil }
	}
	return h
}

// And returns hooks that call those of h and then those of other.
func (h Hooks) And(other Hooks) Hooks {
	h, other = h.withDefaults(), other.withDefaults()
	return Hooks{
		Handled: func(r handlers.Result) {
			h.Handled(r)
			other.Handled(r)
		},
		Committed: func(commands int, took time.Duration, err error) {
			h.Committed(commands, took, err)
			other.Committed(commands, took, err)
		},
		Polled: func(took time.Duration, err error) {
			h.Polled(took, err)
			other.Polled(took, err)
		},
		Reached: func(events []timer.DueTimeReached) {
			h.Reached(events)
			other.Reached(events)
		},
		Published: func(at time.Time, events []*message.Message) {
			h.Published(at, events)
			other.Published(at, events)
		},
		Parked: func(event *message.Message, reason string) {
			h.Parked(event, reason)
			other.Parked(event, reason)
		},
		Watch: func() func(handlers.Decision) {
			first, second := h.Watch(), other.Watch()
			if first == nil || second == nil {
				if first == nil {
					return second
				}
				return first
			}
			return func(d handlers.Decision) {
				first(d)
				second(d)
			}
		},
	}
}

// A timed store calls a hook after each commit of commands.
type timed struct {
	timer.Store
	receipts  func() // called after each commit with receipts; nil if there are none
	committed func(commands int, took time.Duration, err error)
}

// Schedule applies commands.
func (s timed) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Schedule(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	s.receipted(err)
	return results, err
}

func (s timed) receipted(err error) {
	if s.receipts != nil && err == nil {
		s.receipts()
	}
}

// Update runs a transaction.
func (s timed) Update(ctx context.Context, fn func(timer.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	s.receipted(err)
	return err
}

// Cancel applies commands.
func (s timed) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Cancel(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	s.receipted(err)
	return results, err
}
