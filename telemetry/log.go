package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/timer"
)

// LogHandler returns a handler that adds trace_id and span_id to log lines: the ids of the
// span in their context, or of the command or event that they are about, see
// [timer.WithTrace].
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle adds the ids to a line.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	span := spanOf(timer.TraceOf(ctx))
	if !span.IsValid() {
		span = trace.SpanContextFromContext(ctx)
	}
	if span.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler whose lines have attributes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler whose attributes are in a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
