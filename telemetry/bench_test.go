package telemetry_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
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
