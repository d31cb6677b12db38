package timer

import "context"

// A Trace is a W3C trace context, as in the headers of a message.
// The zero value is none.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate; empty without a Parent
}

type traceKey struct{}

// WithTrace returns a context for the handling of one command or event. Log lines about it
// then carry the trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace that [WithTrace] put into a context, or the zero value.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
