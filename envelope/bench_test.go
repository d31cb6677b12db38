package envelope_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	benchCommand = timer.ScheduleTimer{
		Key:           timer.Key{TenantID: "acme", ServiceCallID: "order:42.pay"},
		Version:       timer.Version{TimestampMS: 1893456000000, CommandID: "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071"},
		DueAt:         time.Date(2030, 1, 31, 11, 30, 0, 5e8, time.UTC),
		CorrelationID: "req-7f3a",
	}
	benchEvent = timer.DueTimeReached{
		Key:           benchCommand.Key,
		CommandID:     benchCommand.CommandID,
		DueAt:         benchCommand.DueAt,
		ReachedAt:     benchCommand.DueAt.Add(7 * time.Millisecond),
		CorrelationID: benchCommand.CorrelationID,
	}
)

// BenchmarkData measures what data cost, by their bytes; 0 are none.
func BenchmarkData(b *testing.B) {
	for _, bytes := range []int{0, 100, 1024} {
		c, e := benchCommand, benchEvent
		if bytes > 0 {
			c.Data = `{"attempt":3,"order":"` + strings.Repeat("x", bytes-24) + `"}`
			e.Data = c.Data
		}
		b.Run(fmt.Sprint("decode/data=", bytes), func(b *testing.B) { benchmarkDecode(b, envelope.Schedule(c)) })
		for name, encode := range map[string]func(){
			"command": func() { envelope.Schedule(c) }, "event": func() { envelope.Reached(e) },
		} {
			b.Run(fmt.Sprintf("%s/data=%d", name, bytes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					encode()
				}
			})
		}
	}
}

func benchmarkDecode(b *testing.B, body []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := envelope.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEventID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		envelope.EventID(benchEvent)
	}
}

// many returns a ScheduleTimers of n commands with ids of 36 characters.
func many(n int) timer.ScheduleTimers {
	c := timer.ScheduleTimers{TenantID: benchCommand.TenantID, Version: benchCommand.Version}
	for i := range n {
		command := benchCommand
		command.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("0190b5a2-7c3e-7d4f-8a1b-%012d", i))
		command.DueAt = command.DueAt.Add(time.Duration(i) * time.Second)
		c.Commands = append(c.Commands, command)
	}
	return c
}

func BenchmarkDecodeScheduleTimers(b *testing.B) {
	body := envelope.ScheduleMany(many(timer.MaxScheduleTimers))
	benchmarkDecode(b, body)
	b.ReportMetric(float64(b.N)*timer.MaxScheduleTimers/b.Elapsed().Seconds(), "timers/s")
}
