package app

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// Tracing makes spans, such as that of [telemetry.Traces]. The zero value
// makes none: then an event carries the trace context of its command.
//
// [telemetry.Traces]: https://pkg.go.dev/github.com/event-service-agent/timer-service/telemetry#Traces
type Tracing struct {
	Handle handlers.Trace                                                          // see [handlers.Options]
	Fire   func(ctx context.Context, events []timer.DueTimeReached) (fired func()) // see [poller.Options]
	Settle func(at time.Time, topic string, row outbox.Row, err error)             // see [outbox.Options]

	// Context returns the trace context of the code that runs with ctx, for timers that it
	// schedules by [Timers]. The default is that of its OpenTelemetry span, or [timer.TraceOf]
	// without one.
	Context func(ctx context.Context) timer.Trace

	// Due is called when an event is about to be handled in this process. It returns
	// the context of handling it, and a function to call at the end. It must not block. By
	// default it makes no span, and spans of the handler are in the trace of the event.
	Due func(ctx context.Context, e timer.DueTimeReached) (spanned context.Context, end func(error))
}

// withDefaults returns a Tracing of which Context and Due may be called.
func (t Tracing) withDefaults() Tracing {
	t.Context = option.Func(t.Context, client.TraceOf)
	t.Due = option.Func(t.Due, func(ctx context.Context, e timer.DueTimeReached) (context.Context, func(error)) {
		return client.WithTrace(ctx, e.Trace), func(error) {}
	})
	return t
}
