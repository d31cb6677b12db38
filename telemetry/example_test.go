package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// The metrics of a service of its own, which Prometheus scrapes. The app counts, so the
// counters and hooks are given to both.
func ExampleNew() {
	ctx, counters := context.Background(), new(app.Counters)
	metrics, err := telemetry.New(ctx, "1.0.0", counters)
	if err != nil {
		fmt.Println(err)
		return
	}
	opt := app.Options{Counters: counters, Hooks: []app.Hooks{metrics.Hooks()}} // for app.New

	opt.Hooks[0].Polled(time.Millisecond, nil) // what the app does after each poll
	answer := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), "timer_"))
	fmt.Println(metrics.Shutdown(ctx))
	// Output:
	// 200 true
	// <nil>
}

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
