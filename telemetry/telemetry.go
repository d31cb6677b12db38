// Package telemetry makes metrics of an [app.App]: it has hooks for events, and asks for
// other values when metrics are collected. The OpenTelemetry API counts; [Telemetry.Handler]
// answers Prometheus, and OTLP is on if the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT
// and the like) ask for it. docs/monitoring.md lists each metric.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/event-service-agent/timer-service/app"
)

// scope is the name of the meter.
const scope = "github.com/event-service-agent/timer-service"

// A Telemetry has the metrics of one [app.App]. Make one with [New], or with
// [MetricsOf] in a program that has metrics of its own.
type Telemetry struct {
	instruments *instruments
	counters    *app.Counters
	meter       api.Meter
	handler     http.Handler
	shutdown    func(context.Context) error
}

// New returns a Telemetry for a version of the service and its counters. The error is about
// the variables of OTLP.
func New(ctx context.Context, version string, counters *app.Counters) (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pull, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics for Prometheus: %w", err)
	}
	about, err := resourceOf(ctx, version)
	if err != nil {
		return nil, err
	}
	opts := []metric.Option{metric.WithResource(about), metric.WithReader(pull)}
	if pushes("METRICS") {
		push, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("set up metrics for OTLP: %w", err)
		}
		opts = append(opts, metric.WithReader(push))
	}
	provider := metric.NewMeterProvider(opts...)
	m, err := newInstruments(provider.Meter(scope), counters)
	if err != nil {
		return nil, errors.Join(err, provider.Shutdown(ctx))
	}
	return &Telemetry{
		instruments: m, counters: counters, meter: provider.Meter(scope), shutdown: provider.Shutdown,
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true, Registry: registry}),
	}, nil
}

// MetricsOf returns a Telemetry whose metrics belong to a host's provider, for some counters.
// The host exports them: Handler returns nil, and Shutdown does nothing.
func MetricsOf(provider api.MeterProvider, counters *app.Counters) (*Telemetry, error) {
	meter := provider.Meter(scope)
	m, err := newInstruments(meter, counters)
	if err != nil {
		return nil, err
	}
	return &Telemetry{instruments: m, counters: counters, meter: meter, shutdown: func(context.Context) error { return nil }}, nil
}

// resourceOf describes the process for metrics and spans.
func resourceOf(ctx context.Context, version string) (*resource.Resource, error) {
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("timer-service"), semconv.ServiceVersion(version)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// pushes reports whether the standard variables ask for a signal to be exported.
func pushes(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	names := []string{"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"}
	return slices.ContainsFunc(names, func(name string) bool { return os.Getenv(name) != "" })
}

// Hooks returns the hooks for an app.
func (t *Telemetry) Hooks() app.Hooks { return t.instruments.hooks() }

// Handler answers requests of Prometheus.
func (t *Telemetry) Handler() http.Handler { return t.handler }

// Shutdown sends the remaining metrics, until ctx is done.
func (t *Telemetry) Shutdown(ctx context.Context) error { return t.shutdown(ctx) }
