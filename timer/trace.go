package timer

import "context"

// A Trace is a W3C trace context, as in the headers of a message.
// The zero value is none.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate; empty without a Parent
}

type traceKey struct{}

// WithTrace returns a context of what happens to one command or event, for log lines
// about it.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context that [WithTrace] made, zero for any other.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
