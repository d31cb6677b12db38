package main

import (
	"context"

	"github.com/event-service-agent/timer-service/timer"
)

// What the modules tell each other. A chain of events begins with
// timer.DueTimeReached, of the timer module.
type (
	// A StartExecution asks for the HTTP request of a service call.
	StartExecution struct {
		timer.Key
		URL           string
		CorrelationID string // of the request that booked the call
	}

	// An ExecutionSucceeded says that the endpoint has accepted the request.
	ExecutionSucceeded struct {
		timer.Key
		Answer string
	}

	// An ExecutionFailed says that the endpoint has refused it, and would again.
	ExecutionFailed struct {
		timer.Key
		Answer string
	}
)

// A Bus hands events to the subscribers of their type, before the publisher goes
// on. It keeps nothing, and needs not: a DueTimeReached is deleted from the database when
// all that follows from it was handled, and comes again if the process dies before.
type Bus struct {
	handlers []func(ctx context.Context, event any) error
}

// Subscribe has events of a type handled. It is called before the start only.
func Subscribe[E any](b *Bus, handle func(ctx context.Context, e E) error) {
	b.handlers = append(b.handlers, func(ctx context.Context, event any) error {
		if e, ok := event.(E); ok {
			return handle(ctx, e)
		}
		return nil
	})
}

// Publish calls the handlers of an event. It returns the first error.
func (b *Bus) Publish(ctx context.Context, event any) error {
	for _, handle := range b.handlers {
		if err := handle(ctx, event); err != nil {
			return err
		}
	}
	return nil
}
