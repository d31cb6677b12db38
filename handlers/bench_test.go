package handlers

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type oneTopic struct{}

func (oneTopic) Subscription() string                       { return "timer.commands" }
func (oneTopic) TenantOf(string) (timer.TenantID, bool)     { return "", false }
func (oneTopic) DeadLettersOf(tenant timer.TenantID) string { return "svc." + string(tenant) + ".dlq" }

// BenchmarkRead reads commands as they come from a broker: all that is done for
// a good one before it is stored.
func BenchmarkRead(b *testing.B) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	command := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: "acme", ServiceCallID: "order:42.pay"},
		Version:       timer.Version{TimestampMS: 1893456000000, CommandID: "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071"},
		DueAt:         now.Add(time.Hour),
		CorrelationID: "req-7f3a",
	}
	h := New(nil, oneTopic{}, nil, nil, timer.ClockFunc(func() time.Time { return now }), nil, Options{})
	bare := message.NewMessage(command.CommandID, envelope.Schedule(command))
	command.Trace = timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b"}
	traced := message.NewMessage(command.CommandID, envelope.Schedule(command))
	traced.Metadata = envelope.ScheduleHeaders(command)
	for _, bench := range []struct {
		name string
		msg  *message.Message
	}{{"bare", bare}, {"headers", traced}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := &delivery{msg: bench.msg}
				if h.read(d); d.invalid != nil {
					b.Fatal(d.invalid)
				}
			}
		})
	}
}
