package telemetry

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// These attributes of spans are not in the semantic conventions.
const (
	attrTenant   = attribute.Key("timer.tenant_id")
	attrCall     = attribute.Key("timer.service_call_id")
	attrOutcome  = attribute.Key("timer.outcome")
	attrDueAt    = attribute.Key("timer.due_at")
	attrLateness = attribute.Key("timer.lateness_ms")
	attrAttempts = attribute.Key("timer.attempts")
)

// maxAttributes is the most attributes that a span has, so that they are allocated once.
const maxAttributes = 12

// These are the kinds of spans.
var (
	consumer = trace.WithSpanKind(trace.SpanKindConsumer)
	producer = trace.WithSpanKind(trace.SpanKindProducer)
	client   = trace.WithSpanKind(trace.SpanKindClient)
)

// spans makes the spans of one app.
type spans struct {
	tracer trace.Tracer
	system attribute.KeyValue
}

func newSpans(tracer trace.Tracer, system string) *spans {
	return &spans{tracer, semconv.MessagingSystemKey.String(system)}
}

// of appends the attributes of a message about a timer that are not empty.
func of(attrs []attribute.KeyValue, key timer.Key, id, correlationID string) []attribute.KeyValue {
	for _, a := range [...]attribute.KeyValue{
		attrTenant.String(string(key.TenantID)), attrCall.String(string(key.ServiceCallID)),
		semconv.MessagingMessageID(id), semconv.MessagingMessageConversationID(correlationID),
	} {
		if a.Value.AsString() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// handle begins the span of a delivery, in the trace of the message unless a host's
// middleware has begun a span already.
func (s *spans) handle(ctx context.Context, r handlers.Received) (spanned context.Context, carried timer.Trace, end func(handlers.Handled)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanOf(r.Trace))
	}
	ctx, span := s.tracer.Start(ctx, "process "+cmp.Or(r.Type, "other"), consumer)
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, maxAttributes), s.system, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"),
			semconv.MessagingMessageBodySize(r.Bytes))
		if r.Topic != "" {
			attrs = append(attrs, semconv.MessagingDestinationName(r.Topic))
		}
		if r.Commands > 1 {
			attrs = append(attrs, semconv.MessagingBatchMessageCount(r.Commands))
		}
		span.SetAttributes(of(attrs, r.Key, r.ID, r.CorrelationID)...)
	}
	return ctx, contextOf(span.SpanContext()), func(h handlers.Handled) {
		span.SetAttributes(attrOutcome.String(h.Outcome))
		switch {
		case h.Reason != "":
			fail(span, string(h.Reason), "invalid: "+string(h.Reason))
		case h.Err != nil:
			fail(span, h.Outcome, h.Err.Error())
		}
		span.End()
	}
}

// fail records the kind and the text of an error in a span.
func fail(span trace.Span, kind, text string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, text)
}

// fire begins a trace for each event, with a link to the trace of its command.
func (s *spans) fire(ctx context.Context, events []timer.DueTimeReached) (fired func()) {
	begun := make([]trace.Span, len(events))
	for i := range events {
		e := &events[i]
		id := envelope.EventID(*e)
		opts := append(make([]trace.SpanStartOption, 0, 4), trace.WithNewRoot(), producer, trace.WithTimestamp(e.ReachedAt))
		if command := spanOf(e.Trace); command.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: command}))
		}
		_, begun[i] = s.tracer.Start(context.WithValue(ctx, eventKey{}, id), "create "+envelope.TypeOf(*e), opts...)
		if begun[i].IsRecording() {
			attrs := append(make([]attribute.KeyValue, 0, maxAttributes), s.system, semconv.MessagingOperationTypeCreate, semconv.MessagingOperationName("create"),
				attrDueAt.String(envelope.FormatTime(e.DueAt)), attrLateness.Int64(e.Lateness().Milliseconds()))
			begun[i].SetAttributes(of(attrs, e.Key, id, e.CorrelationID)...)
		}
		if begun[i].SpanContext().IsValid() {
			e.Trace = contextOf(begun[i].SpanContext())
		}
	}
	return func() {
		for _, span := range begun {
			span.End()
		}
	}
}

// context returns the trace context of a span that the host has begun.
func (s *spans) context(ctx context.Context) timer.Trace {
	if carried := contextOf(trace.SpanContextFromContext(ctx)); carried.Parent != "" {
		return carried
	}
	return timer.TraceOf(ctx)
}

// due begins the span of handling an event in this process, in the trace of its firing.
func (s *spans) due(ctx context.Context, e timer.DueTimeReached) (spanned context.Context, end func(error)) {
	ctx, span := s.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, spanOf(e.Trace)), "process "+envelope.TypeOf(e), consumer)
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, maxAttributes), semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"),
			attrDueAt.String(envelope.FormatTime(e.DueAt)))
		span.SetAttributes(of(attrs, e.Key, e.ID, e.CorrelationID)...)
	}
	return ctx, func(err error) {
		if err != nil {
			fail(span, "failed", err.Error())
		}
		span.End()
	}
}

// settle makes the span of an event from its firing to the broker's ack. All its data is in
// the event, so it is the same after a restart.
func (s *spans) settle(at time.Time, topic string, row outbox.Row, err error) {
	header := row.Message.Metadata.Get
	parent := spanOf(envelope.TraceFrom(header))
	if !parent.IsSampled() {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, maxAttributes), s.system, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("send"),
		semconv.MessagingDestinationName(topic), attrAttempts.Int(row.Attempts+1))
	key := timer.Key{TenantID: timer.TenantID(header(envelope.HeaderTenantID)), ServiceCallID: timer.ServiceCallID(header(envelope.HeaderServiceCallID))}
	opts := []trace.SpanStartOption{client}
	if m, err := envelope.Decode(row.Message.Payload); err == nil {
		switch m := m.Payload.(type) {
		case timer.DueTimeReached:
			attrs = append(attrs, attrLateness.Int64(at.Sub(m.DueAt).Milliseconds()))
			opts = append(opts, trace.WithTimestamp(m.ReachedAt))
		case timer.TimerExpired:
			opts = append(opts, trace.WithTimestamp(m.ExpiredAt))
		case timer.Receipt:
			opts = append(opts, trace.WithTimestamp(m.At))
		}
	}
	opts = append(opts, trace.WithAttributes(of(attrs, key, row.Message.UUID, header(envelope.HeaderCorrelationID))...))
	_, span := s.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), "send "+header(envelope.HeaderType), opts...)
	if err != nil {
		fail(span, "parked", err.Error())
	}
	span.End(trace.WithTimestamp(at))
}
