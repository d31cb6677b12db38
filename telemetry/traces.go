package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Traces makes spans of what an [app.App] and its HTTP server do:
//
//	request ─► process ScheduleTimer      in the trace of the command
//	                  ▲ link
//	           create DueTimeReached      begins a trace, which the event carries on
//	             ├─► send DueTimeReached  ends with the broker's ack
//	             └─► … what consumers do, such as process DueTimeReached in this process
//
// A nil Traces makes none. Make one with [NewTraces] or [TracesOf].
type Traces struct {
	tracer   trace.Tracer
	provider trace.TracerProvider
	shutdown func(context.Context) error
}

// queue is how many spans may wait to be exported, unless OTEL_BSP_MAX_QUEUE_SIZE is set. A
// batch of timers that fire together makes as many spans at once.
const queue = 8192

// NewTraces returns the Traces of a service with a version. The standard variables
// (OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and the like) and options say where they
// are exported; without either, NewTraces returns nil. The error is about the variables.
// OTEL_TRACES_SAMPLER sets the sampling. Its default, parentbased_always_on, samples commands
// with a trace if their producer sampled it, and all other commands and all firings.
func NewTraces(ctx context.Context, version string, opts ...sdk.TracerProviderOption) (*Traces, error) {
	if pushes("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("set up traces for OTLP: %w", err)
		}
		if !autoexport.IsNoneSpanExporter(exporter) {
			var size []sdk.BatchSpanProcessorOption
			if os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
				size = append(size, sdk.WithMaxQueueSize(queue))
			}
			opts = append(opts, sdk.WithBatcher(exporter, size...))
		}
	}
	if len(opts) == 0 {
		return nil, nil //nolint:nilnil // a nil Traces makes no spans
	}
	about, err := resourceOf(ctx, version)
	if err != nil {
		return nil, err
	}
	provider := sdk.NewTracerProvider(append([]sdk.TracerProviderOption{sdk.WithResource(about), sdk.WithIDGenerator(ids{})}, opts...)...)
	t := TracesOf(provider)
	t.shutdown = provider.Shutdown
	return t, nil
}

// TracesOf returns Traces whose spans a host's provider makes. Then the trace of an event is
// not derived from its id: if a CloudEvent fires again after the database was restored, its
// traceparent differs.
func TracesOf(provider trace.TracerProvider) *Traces {
	return &Traces{tracer: provider.Tracer(scope), provider: provider, shutdown: func(context.Context) error { return nil }}
}

// Shutdown exports the remaining spans, until ctx is done.
func (t *Traces) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.shutdown(ctx)
}

// Tracing returns the functions for an app. System is its broker, as in messaging.system of
// the semantic conventions, such as "kafka".
func (t *Traces) Tracing(system string) app.Tracing {
	if t == nil {
		return app.Tracing{}
	}
	s := newSpans(t.tracer, system)
	return app.Tracing{Handle: s.handle, Fire: s.fire, Settle: s.settle, Context: s.context, Due: s.due}
}

// Handler makes a span of each request, except for probes and scrapes. Commands of a request
// carry its span on.
func (t *Traces) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	carried := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if trace.SpanContextFromContext(r.Context()).IsValid() { // without a valid context the request is filtered
			r.Header.Del("tracestate")
			propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
		}
		next.ServeHTTP(w, r)
	})
	return otelhttp.NewHandler(carried, "http",
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithMeterProvider(noop.NewMeterProvider()), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return strings.TrimSpace(r.Method + " " + r.Pattern) }),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return !slices.ContainsFunc([]string{"/livez", "/readyz", "/metrics"}, func(probe string) bool { return strings.HasSuffix(r.URL.Path, probe) })
		}))
}

// contextOf returns the trace context of a span, or none if the span is not valid, as a
// provider without tracing returns it.
func contextOf(span trace.SpanContext) timer.Trace {
	if !span.IsValid() {
		return timer.Trace{}
	}
	sampled := span.TraceFlags() & trace.FlagsSampled
	return timer.Trace{Parent: "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + sampled.String(), State: span.TraceState().String()}
}

// spanOf returns the span that a trace context names, or none if that is not valid.
func spanOf(t timer.Trace) trace.SpanContext {
	carried := propagation.MapCarrier{envelope.HeaderTraceParent: t.Parent, envelope.HeaderTraceState: t.State}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carried))
}

// ids makes the ids of spans. The ids of a firing are derived from the id of its event. So an
// event that fires again is the same, including the traceparent of a CloudEvent. All other
// ids are random.
type ids struct{}

type eventKey struct{}

// NewIDs returns the ids of a span that begins a trace.
func (ids) NewIDs(ctx context.Context) (traceID trace.TraceID, spanID trace.SpanID) {
	event, ok := ctx.Value(eventKey{}).(string)
	if !ok {
		return newTraceID(), newSpanID()
	}
	sum := sha256.Sum256([]byte(event))
	copy(traceID[:], sum[:16])
	copy(spanID[:], sum[16:24])
	return traceID, spanID
}

// NewSpanID returns the id of a span in a trace.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newTraceID() (id trace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64()|1) // never zero
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
