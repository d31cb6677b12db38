package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	requestTrace = "0af7651916cd43dd8448eb211c80319c"
	requestSpan  = "b7ad6b7169203331"
)

// A world is a service whose spans a test reads.
type world struct {
	t      *testing.T
	broker broker.Broker
	traces *telemetry.Traces
	format envelope.Format
	log    logbuf.Buffer
	drain  time.Duration // of a stop; default 10s
	events <-chan *message.Message
	dead   <-chan *message.Message
}

func newWorld(t *testing.T, traces *telemetry.Traces) *world {
	return &world{t: t, broker: gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler)), traces: traces}
}

// inMemory returns traces, and where their spans come to.
func inMemory(t *testing.T, opts ...sdk.TracerProviderOption) (*telemetry.Traces, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	traces, err := telemetry.NewTraces(t.Context(), "test", append(opts, sdk.WithSyncer(spans))...)
	must(t, err)
	return traces, spans
}

// run runs the service on a new database until do returns.
func (w *world) run(do func(ctx context.Context)) {
	w.t.Helper()
	w.runOn(filepath.Join(w.t.TempDir(), "timers.db"), do)
}

// runOn runs the service on a database until do returns.
func (w *world) runOn(path string, do func(ctx context.Context)) {
	w.t.Helper()
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s, err := sqlite.Open(w.t.Context(), path, sqlite.Options{Events: w.format})
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	a, err := app.New(s, w.broker, log, app.Options{Tracing: w.traces.Tracing("gochannel"), DrainTimeout: w.drain})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	tails, stopTails := context.WithCancel(ctx)
	var running, working sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = w.broker.Run(ctx) })
	serving, stopApp := context.WithCancel(ctx)
	defer working.Wait()
	defer stopApp()
	working.Go(func() { _ = a.Run(serving) })
	<-a.Running()
	for w.broker.Ready(ctx) != nil {
		runtime.Gosched()
	}
	defer stopTails()
	tail := w.broker.Tail()
	defer tail.Close()
	subscribe := func(topic string) <-chan *message.Message {
		messages, err := tail.Subscribe(tails, topic)
		if err != nil {
			w.t.Fatal(err)
		}
		return messages
	}
	r := w.broker.Routing()
	w.events, w.dead = subscribe(r.EventsOf("acme")), subscribe(r.DeadLettersOf("acme"))
	do(ctx)
}

// publish publishes a command as part of a request.
func (w *world) publish(ctx context.Context, body []byte) {
	w.t.Helper()
	m := message.NewMessage("command-1", body)
	m.Metadata.Set(envelope.HeaderTraceParent, "00-"+requestTrace+"-"+requestSpan+"-01")
	for _, err := range w.broker.Publisher().Publish(ctx, broker.Message{Topic: w.broker.Routing().CommandsOf("acme"), Message: m}) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func order() timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "command-1"}, DueAt: time.Now(), CorrelationID: "req-7",
	}
}

// receive returns the next message.
func receive(t *testing.T, from <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m := <-from:
		m.Ack()
		return m
	case <-time.After(time.Minute):
		t.Fatal("no message came")
		return nil
	}
}

// byName returns spans by their names, which must differ.
func byName(t *testing.T, spans tracetest.SpanStubs) map[string]tracetest.SpanStub {
	t.Helper()
	named := make(map[string]tracetest.SpanStub)
	for _, s := range spans {
		if _, twice := named[s.Name]; twice {
			t.Errorf("two spans %q", s.Name)
		}
		named[s.Name] = s
	}
	return named
}

// attributes returns those of a span as text.
func attributes(s tracetest.SpanStub) map[string]string {
	got := make(map[string]string)
	for _, a := range s.Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	return got
}

func TestSpansOfOneTimer(t *testing.T) {
	t.Parallel()
	traces, exported := inMemory(t)
	w := newWorld(t, traces)
	var event *message.Message
	w.run(func(ctx context.Context) {
		w.publish(ctx, envelope.Schedule(order()))
		event = receive(t, w.events)
	})
	spans := byName(t, exported.GetSpans())
	process, create, send := spans["process ScheduleTimer"], spans["create DueTimeReached"], spans["send DueTimeReached"]
	if len(spans) != 3 {
		t.Fatalf("spans: %v", slices.Sorted(maps.Keys(spans)))
	}
	if got := process.Parent.TraceID().String() + process.Parent.SpanID().String(); got != requestTrace+requestSpan || process.SpanKind != trace.SpanKindConsumer {
		t.Errorf("the parent of the command's span is %s, its kind %s", got, process.SpanKind)
	}
	if create.Parent.IsValid() || create.SpanContext.TraceID() == process.SpanContext.TraceID() || create.SpanKind != trace.SpanKindProducer {
		t.Errorf("the firing is in the trace of the command, or its kind is %s", create.SpanKind)
	}
	if len(create.Links) != 1 || create.Links[0].SpanContext.SpanID() != process.SpanContext.SpanID() {
		t.Errorf("the firing links to %v, want the span of the command", create.Links)
	}
	if got := event.Metadata.Get(envelope.HeaderTraceParent); got != "00-"+create.SpanContext.TraceID().String()+"-"+create.SpanContext.SpanID().String()+"-01" {
		t.Errorf("the event carries %s, want the span of the firing", got)
	}
	if send.Parent.SpanID() != create.SpanContext.SpanID() || send.SpanKind != trace.SpanKindClient || !send.StartTime.Equal(create.StartTime) || send.EndTime.Before(create.StartTime) {
		t.Errorf("%s from %v to %v is not the way of the event to the broker", send.Name, send.StartTime, send.EndTime)
	}
	got := attributes(process)
	delete(got, "messaging.message.body.size")
	want := map[string]string{
		"messaging.system": "gochannel", "messaging.operation.type": "process", "messaging.operation.name": "process", "messaging.destination.name": w.broker.Routing().Commands,
		"messaging.message.id": "command-1", "messaging.message.conversation_id": "req-7",
		"timer.tenant_id": "acme", "timer.service_call_id": "order-1", "timer.outcome": "scheduled",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes of the command's span (-want +got):\n%s", diff)
	}
	got = attributes(send)
	if got["timer.lateness_ms"] == "" || got["timer.attempts"] != "1" || got["messaging.message.id"] != event.UUID || got["messaging.destination.name"] != w.broker.Routing().EventsOf("acme") {
		t.Errorf("attributes of the event: %v", got)
	}
	for line, span := range map[string]string{"command handled": "process ScheduleTimer", "timer fired": "create DueTimeReached", "event delivered": "create DueTimeReached"} {
		c := spans[span].SpanContext
		if !hasLine(w.log.String(), line, "trace_id="+c.TraceID().String()+" span_id="+c.SpanID().String()) {
			t.Errorf("no line %q with the span %q:\n%s", line, span, w.log.String())
		}
	}
}

func TestSpanOfARefusedCommandSaysWhy(t *testing.T) {
	t.Parallel()
	traces, exported := inMemory(t)
	w := newWorld(t, traces)
	w.run(func(ctx context.Context) {
		w.publish(ctx, []byte(`{"id":"command-1","type":"ScheduleTimer","tenantId":"acme"}`))
		receive(t, w.dead)
	})
	s := byName(t, exported.GetSpans())["process other"]
	if got := attributes(s); got["error.type"] != string(timer.ReasonMissingField) || got["timer.outcome"] != "invalid" || s.Status.Code != codes.Error {
		t.Errorf("attributes %v, status %v", got, s.Status)
	}
	if s.SpanContext.TraceID().String() != requestTrace {
		t.Error("the span is not in the trace of the request")
	}
}

// TestTraceOfAnEventFollowsFromItsID fires one command on two databases, as after a loss
// of the first: even the bodies of CloudEvents, with a traceparent, are equal.
func TestTraceOfAnEventFollowsFromItsID(t *testing.T) {
	t.Parallel()
	command := order()
	var bodies [2]string
	for i := range bodies {
		traces, _ := inMemory(t)
		w := newWorld(t, traces)
		w.format = envelope.Format{CloudEvents: true}
		w.run(func(ctx context.Context) {
			w.publish(ctx, envelope.Schedule(command))
			event := receive(t, w.events)
			m, err := envelope.Decode(event.Payload)
			must(t, err)
			reached := envelope.FormatTime(m.Payload.(timer.DueTimeReached).ReachedAt)
			bodies[i] = strings.ReplaceAll(string(event.Payload), reached, "then")
			if !bytes.Contains(event.Payload, []byte(event.Metadata.Get(envelope.HeaderTraceParent))) {
				t.Error("header and body carry different traces")
			}
		})
	}
	if diff := cmp.Diff(bodies[0], bodies[1]); diff != "" {
		t.Errorf("the event differs (-first +second):\n%s", diff)
	}
}

// TestSpanOfAnEventEndsAfterARestart has the service stop while the broker is away.
func TestSpanOfAnEventEndsAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	inner := gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler))
	traces, before := inMemory(t)
	w := &world{t: t, broker: awayBroker{inner}, traces: traces, drain: time.Millisecond}
	w.runOn(path, func(ctx context.Context) {
		m := message.NewMessage("command-1", envelope.Schedule(order()))
		must(t, inner.Publisher().Publish(ctx, broker.Message{Topic: inner.Routing().Commands, Message: m})[0])
		for len(before.GetSpans()) < 2 {
			runtime.Gosched()
		}
	})
	traces, after := inMemory(t)
	w = newWorld(t, traces)
	w.runOn(path, func(context.Context) {
		for len(after.GetSpans()) == 0 {
			runtime.Gosched()
		}
	})
	create, send := byName(t, before.GetSpans())["create DueTimeReached"], byName(t, after.GetSpans())["send DueTimeReached"]
	if !create.SpanContext.IsValid() || send.Parent.SpanID() != create.SpanContext.SpanID() || !send.StartTime.Equal(create.StartTime) {
		t.Errorf("%s in %s, which began %v, is not the end of %s in %s, which began %v",
			send.Name, send.SpanContext.TraceID(), send.StartTime, create.Name, create.SpanContext.TraceID(), create.StartTime)
	}
}

// awayBroker is a broker that takes no events.
type awayBroker struct{ *gochannel.Broker }

func (a awayBroker) Publisher() broker.Publisher { return unavailable{} }

type unavailable struct{}

func (unavailable) Publish(_ context.Context, messages ...broker.Message) []error {
	return slices.Repeat([]error{broker.ErrUnavailable}, len(messages))
}

// TestWithoutTracingAnEventCarriesTheTraceOfItsCommand has no variables of OTLP set.
func TestWithoutTracingAnEventCarriesTheTraceOfItsCommand(t *testing.T) {
	t.Parallel()
	traces, err := telemetry.NewTraces(t.Context(), "test")
	if err != nil || traces != nil {
		t.Fatalf("traces without variables: %v, %v", traces, err)
	}
	w := newWorld(t, nil)
	w.run(func(ctx context.Context) {
		w.publish(ctx, envelope.Schedule(order()))
		if got := receive(t, w.events).Metadata.Get(envelope.HeaderTraceParent); got != "00-"+requestTrace+"-"+requestSpan+"-01" {
			t.Errorf("the event carries %q", got)
		}
	})
	for _, line := range []string{"command handled", "timer fired", "event delivered"} {
		if !hasLine(w.log.String(), line, "trace_id="+requestTrace+" span_id="+requestSpan) {
			t.Errorf("no line %q with the trace:\n%s", line, w.log.String())
		}
	}
}

// TestProviderThatMakesNoSpansKeepsTheTrace has a host's provider that does nothing.
func TestProviderThatMakesNoSpansKeepsTheTrace(t *testing.T) {
	t.Parallel()
	for _, provider := range []trace.TracerProvider{noop.NewTracerProvider(), otel.GetTracerProvider()} {
		tracing := telemetry.TracesOf(provider).Tracing("nats")
		want := timer.Trace{Parent: "00-" + requestTrace + "-" + requestSpan + "-01"}
		events := []timer.DueTimeReached{{Key: order().Key, CommandID: "c", Trace: want}, {Key: order().Key, CommandID: "d"}}
		tracing.Fire(t.Context(), events)()
		if events[0].Trace != want || events[1].Trace != (timer.Trace{}) {
			t.Errorf("events carry %+v and %+v", events[0].Trace, events[1].Trace)
		}
		_, carried, end := tracing.Handle(t.Context(), handlers.Received{})
		end(handlers.Handled{})
		if carried != (timer.Trace{}) {
			t.Errorf("a command carries %+v", carried)
		}
		_, carried, end = tracing.Handle(t.Context(), handlers.Received{Trace: want})
		end(handlers.Handled{})
		if carried.Parent != want.Parent {
			t.Errorf("a command carries %+v", carried)
		}
	}
}

// hasLine reports whether a log has a line with a message and attributes.
func hasLine(log, text, attrs string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `msg="`+text+`"`) && strings.Contains(line, attrs) {
			return true
		}
	}
	return false
}

// TestNothingIsRecordedThatIsNotSampled has a producer that did not sample its trace,
// and a service that samples no trace of its own.
func TestNothingIsRecordedThatIsNotSampled(t *testing.T) {
	t.Parallel()
	traces, exported := inMemory(t, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	w := newWorld(t, traces)
	w.run(func(ctx context.Context) {
		m := message.NewMessage("command-1", envelope.Schedule(order()))
		m.Metadata.Set(envelope.HeaderTraceParent, "00-"+requestTrace+"-"+requestSpan+"-00")
		must(t, w.broker.Publisher().Publish(ctx, broker.Message{Topic: w.broker.Routing().Commands, Message: m})[0])
		if got := receive(t, w.events).Metadata.Get(envelope.HeaderTraceParent); len(got) != 55 || !strings.HasSuffix(got, "-00") {
			t.Errorf("the event carries %q, want a trace that is not sampled", got)
		}
	})
	if spans := exported.GetSpans(); len(spans) > 0 {
		t.Errorf("spans: %v", spans)
	}
}
