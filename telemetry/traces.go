package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/app"
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

// queue is how many spans may wait to be exported unless OTEL_BSP_MAX_QUEUE_SIZE says:
// a batch of timers that fire together makes as many at once.
const queue = 8192

// NewTraces returns the Traces of a service with a version, which are exported as the
// standard variables (OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and the like)
// and options say; nil if there are neither. The error is about the variables. Sampling
// is that of OTEL_TRACES_SAMPLER. Its default is parentbased_always_on: of commands that
// have a trace those whose producer sampled it, of all others and of all firings each one.
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
		return nil, nil //nolint:nilnil // there are none, which a nil Traces is
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

// TracesOf returns Traces whose spans a host's provider makes. The trace of an event
// does not follow from its id then: a CloudEvent that fires again after the database
// was restored differs in its traceparent.
func TracesOf(provider trace.TracerProvider) *Traces {
	return &Traces{tracer: provider.Tracer(scope), provider: provider, shutdown: func(context.Context) error { return nil }}
}

// Shutdown exports what was not yet, until ctx is done.
func (t *Traces) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.shutdown(ctx)
}

// Tracing returns what an app calls. System is its broker, as messaging.system of the
// semantic conventions, such as "kafka".
func (t *Traces) Tracing(system string) app.Tracing {
	if t == nil {
		return app.Tracing{}
	}
	s := newSpans(t.tracer, system)
	return app.Tracing{Handle: s.handle, Fire: s.fire, Settle: s.settle, Context: s.context, Due: s.due}
}

// Handler makes a span of each request, but for probes and scrapes. Commands of a
// request carry its span on.
func (t *Traces) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	carried := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if trace.SpanContextFromContext(r.Context()).IsValid() { // else it is filtered
			r.Header.Del("tracestate")
			propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
		}
		next.ServeHTTP(w, r)
	})
	return otelhttp.NewHandler(carried, "http",
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithMeterProvider(noop.NewMeterProvider()), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return strings.TrimSpace(r.Method + " " + r.Pattern) }),
		otelhttp.WithFilter(func(r *http.Request) bool {
			for _, probe := range []string{"/livez", "/readyz", "/metrics"} {
				if strings.HasSuffix(r.URL.Path, probe) {
					return false
				}
			}
			return true
		}))
}

// contextOf returns the trace context of a span; none if the span is not valid, as those
// of a provider that makes none.
func contextOf(span trace.SpanContext) timer.Trace {
	if !span.IsValid() {
		return timer.Trace{}
	}
	sampled := span.TraceFlags() & trace.FlagsSampled
	return timer.Trace{Parent: "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + sampled.String(), State: span.TraceState().String()}
}

// spanOf returns the span that a trace context names; one that is not valid is none. The
// propagator would take twice as long.
func spanOf(t timer.Trace) trace.SpanContext {
	if len(t.Parent) != 55 {
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(t.Parent[3:35])
	spanID, spanErr := trace.SpanIDFromHex(t.Parent[36:52])
	if err != nil || spanErr != nil {
		return trace.SpanContext{}
	}
	c := trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, Remote: true}
	if t.Parent[54]&1 == 1 { // of the hexadecimal digits too
		c.TraceFlags = trace.FlagsSampled
	}
	if t.State != "" {
		c.TraceState, _ = trace.ParseTraceState(t.State) // none, if it is not valid
	}
	return trace.NewSpanContext(c)
}

// ids makes the ids of spans. Those of a firing follow from the id of its event, so that
// an event which fires again is the same, a CloudEvent with its traceparent too; all
// others are random.
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
