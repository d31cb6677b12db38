package telemetry_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// Log lines about an event name the trace that it carries.
func ExampleLogHandler() {
	text := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(telemetry.LogHandler(text))
	ctx := timer.WithTrace(context.Background(), timer.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	log.InfoContext(ctx, "order canceled", "order", "order-1")
	// Output: level=INFO msg="order canceled" order=order-1 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7
}
