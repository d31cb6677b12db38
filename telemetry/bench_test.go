package telemetry_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkHooks measures what metrics cost a timer.
func BenchmarkHooks(b *testing.B) {
	t, err := telemetry.New(b.Context(), "test", new(app.Counters))
	if err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	due := time.Now()
	events, messages := make([]timer.DueTimeReached, batch), make([]*message.Message, batch)
	for i := range events {
		events[i] = timer.DueTimeReached{DueAt: due.Add(-time.Duration(i) * time.Millisecond), ReachedAt: due}
		messages[i] = message.NewMessage(envelope.EventID(events[i]), nil)
	}
	h := t.Hooks()
	bench := func(name string, do func(app.Hooks)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/timer")
		})
	}
	bench("reached", func(h app.Hooks) { h.Reached(events) })
	bench("published", func(h app.Hooks) { h.Published(due, messages) })
}

// BenchmarkSpans makes the three spans of a timer, as they are handed to the exporter.
func BenchmarkSpans(b *testing.B) {
	for name, sampler := range map[string]sdk.Sampler{"sampled": sdk.AlwaysSample(), "not sampled": sdk.NeverSample()} {
		b.Run(name, func(b *testing.B) {
			traces, err := telemetry.NewTraces(b.Context(), "test", sdk.WithSampler(sampler), sdk.WithBatcher(tracetest.NewNoopExporter()))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = traces.Shutdown(context.Background()) }()
			h := traces.Tracing("nats")
			key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
			event := timer.DueTimeReached{Key: key, CommandID: "command-1", DueAt: time.Now(), ReachedAt: time.Now(), CorrelationID: "req-7"}
			b.ReportAllocs()
			for b.Loop() {
				_, carried, end := h.Handle(b.Context(), handlers.Received{
					Topic: "timer.commands", Type: "ScheduleTimer", Key: key, ID: "command-1", CorrelationID: "req-7", Commands: 1,
					Trace: timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
				})
				end(handlers.Handled{Outcome: "scheduled"})
				events := []timer.DueTimeReached{event}
				events[0].Trace = carried
				h.Fire(b.Context(), events)()
				m := message.NewMessage(envelope.EventID(event), envelope.Reached(events[0]))
				m.Metadata = envelope.HeadersOf(events[0])
				h.Settle(time.Now(), "svc.acme.serviceCall", outbox.Row{Message: m}, nil)
			}
		})
	}
}
