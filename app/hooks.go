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
	Reached   func(events []timer.DueTimeReached)               // timers have fired
	Published func(at time.Time, events []*message.Message)     // the broker has acked events, see [envelope.DueAt]
	Parked    func(reason string)                               // an event was refused for good
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
		h.Parked = func(string) {}
	}
	return h
}

// A timed store calls a hook after each commit of commands.
type timed struct {
	timer.Store
	committed func(commands int, took time.Duration, err error)
}

// Schedule applies commands.
func (s timed) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Schedule(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	return results, err
}

// Cancel applies commands.
func (s timed) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Cancel(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	return results, err
}
