package client

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// w3c reads and writes trace contexts, whatever propagator the program has set for
// itself: the service reads these.
var w3c propagation.TraceContext

// TraceOf returns the trace of the OpenTelemetry span in a context, or that of
// [timer.WithTrace].
func TraceOf(ctx context.Context) timer.Trace {
	headers := propagation.MapCarrier{}
	w3c.Inject(ctx, headers)
	if t := envelope.TraceFrom(headers.Get); t.Parent != "" {
		return t
	}
	return timer.TraceOf(ctx)
}

// WithTrace returns a context that carries on the trace of an event, unless it has a
// span, such as that of a middleware.
func WithTrace(ctx context.Context, t timer.Trace) context.Context {
	if t.Parent == "" || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return w3c.Extract(timer.WithTrace(ctx, t), propagation.MapCarrier{
		envelope.HeaderTraceParent: t.Parent, envelope.HeaderTraceState: t.State,
	})
}
