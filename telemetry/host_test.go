package telemetry_test

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// fireOne runs an app in a program until a handler has taken the event of a timer.
func fireOne(ctx context.Context, t *testing.T, metrics *telemetry.Telemetry, opt app.Options, handle func(context.Context) error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	opt.Hooks = []app.Hooks{metrics.Hooks()}
	a, err := app.New(s, nil, slog.New(slog.DiscardHandler), opt)
	must(t, err)
	must(t, metrics.Observe(telemetry.SourcesOf(a, s)))
	handled := make(chan struct{})
	a.Timers().OnDue("", func(ctx context.Context, _ timer.DueTimeReached) error {
		err := handle(ctx)
		if err == nil {
			close(handled)
		}
		return err
	}, app.OnDueOptions{})
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	<-a.Running()
	must(t, a.Timers().Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Millisecond}))
	<-handled
	stop()
	must(t, <-ended) // all is counted then
}

// TestMetricsAndSpansOfAnEmbeddedAppAreTheHosts runs an app without a broker in a
// program that has providers of its own.
func TestMetricsAndSpansOfAnEmbeddedAppAreTheHosts(t *testing.T) {
	t.Parallel()
	reader, spans, counters := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter(), new(app.Counters)
	tracers := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	metrics, err := telemetry.MetricsOf(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), counters)
	must(t, err)
	request, span := tracers.Tracer("host").Start(t.Context(), "request")
	var inHandler trace.SpanContext
	fireOne(request, t, metrics, app.Options{Counters: counters, Tracing: telemetry.TracesOf(tracers).Tracing("none")}, func(ctx context.Context) error {
		inHandler = trace.SpanContextFromContext(ctx)
		return nil
	})
	span.End()
	got := collect(t, reader)

	for _, name := range []string{"timer.lateness.reached", "timer.polling.duration", "timer.timers", "timer.ready", "timer.schedules.processed", "timer.commit.size"} {
		if _, ok := got[name]; !ok {
			t.Errorf("the provider of the host has no %s, only %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
	if h, ok := got["timer.lateness.reached"].Data.(metricdata.Histogram[float64]); !ok || len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 {
		t.Errorf("timer.lateness.reached: %+v", got["timer.lateness.reached"].Data)
	}
	if metrics.Handler() != nil {
		t.Error("there is a handler for Prometheus")
	}
	byName := make(map[string]tracetest.SpanStub)
	for _, s := range spans.GetSpans() {
		byName[s.Name] = s
	}
	created, processed := byName["create DueTimeReached"], byName["process DueTimeReached"]
	if len(created.Links) != 1 || created.Links[0].SpanContext.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the firing links to %v, want the request", created.Links)
	}
	if processed.Parent.SpanID() != created.SpanContext.SpanID() || inHandler.SpanID() != processed.SpanContext.SpanID() {
		t.Errorf("the handler runs in span %v, which is %v in %v, want it in the firing, %v", inHandler.SpanID(), processed.SpanContext.SpanID(), processed.Parent.SpanID(), created.SpanContext.SpanID())
	}
}

// TestAnEventThatItsHandlerWantsLaterIsNotLate has no histogram of when it was handled at last.
func TestAnEventThatItsHandlerWantsLaterIsNotLate(t *testing.T) {
	t.Parallel()
	reader, counters := sdkmetric.NewManualReader(), new(app.Counters)
	metrics, err := telemetry.MetricsOf(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), counters)
	must(t, err)
	calls := 0
	fireOne(t.Context(), t, metrics, app.Options{Counters: counters}, func(context.Context) error {
		if calls++; calls == 1 {
			return timer.Later(time.Millisecond)
		}
		return nil
	})
	got := collect(t, reader)
	if h, is := got["timer.lateness.published"]; is || counters.Forwarded() != 1 {
		t.Errorf("%+v, %d delivered", h.Data, counters.Forwarded())
	}
}

// collect returns the metrics that a reader has, by name.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, reader.Collect(t.Context(), &all))
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}
