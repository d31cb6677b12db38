package app

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// Hooks are called when something happens, by many goroutines at once. They must not
// block, nor keep or change their arguments. A hook that is nil is not called.
type Hooks struct {
	Committed func(commands int, took time.Duration, err error) // commands were written together
	Polled    func(took time.Duration, err error)               // a poll has ended
	Reached   func(events []timer.DueTimeReached)               // timers have fired, or expired: see [timer.DueTimeReached.State]
	Published func(at time.Time, events []*message.Message)     // the broker has acked events, see [envelope.DueAt]
	Parked    func(event *message.Message, reason string)       // an event was refused for good
	Watch     func() func(handlers.Decision)                    // called once a delivery; it returns a function that is called with the outcome of each of its commands, or nil
}

// allHooks are called one after the other.
type allHooks []Hooks

func (all allHooks) committed(commands int, took time.Duration, err error) {
	for _, h := range all {
		if h.Committed != nil {
			h.Committed(commands, took, err)
		}
	}
}

func (all allHooks) polled(took time.Duration, err error) {
	for _, h := range all {
		if h.Polled != nil {
			h.Polled(took, err)
		}
	}
}

func (all allHooks) reached(events []timer.DueTimeReached) {
	for _, h := range all {
		if h.Reached != nil {
			h.Reached(events)
		}
	}
}

func (all allHooks) published(at time.Time, events []*message.Message) {
	for _, h := range all {
		if h.Published != nil {
			h.Published(at, events)
		}
	}
}

func (all allHooks) parked(event *message.Message, reason string) {
	for _, h := range all {
		if h.Parked != nil {
			h.Parked(event, reason)
		}
	}
}

func (all allHooks) watch() func(handlers.Decision) {
	var watching []func(handlers.Decision)
	for _, h := range all {
		if h.Watch == nil {
			continue
		}
		if decided := h.Watch(); decided != nil {
			watching = append(watching, decided)
		}
	}
	if watching == nil {
		return nil
	}
	return func(d handlers.Decision) {
		for _, decided := range watching {
			decided(d)
		}
	}
}

// A timedStore calls a hook after each commit of commands.
type timedStore struct {
	timer.Store
	committed func(commands int, took time.Duration, err error)
}

// Schedule applies commands.
func (s timedStore) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Schedule(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	return results, err
}

// Cancel applies commands.
func (s timedStore) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	began := time.Now()
	results, err := s.Store.Cancel(ctx, now, commands...)
	s.committed(len(commands), time.Since(began), err)
	return results, err
}
