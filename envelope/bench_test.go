package envelope_test

import (
	"fmt"
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

func BenchmarkDecodeScheduleTimer(b *testing.B) { benchmarkDecode(b, envelope.Schedule(benchCommand)) }

func BenchmarkDecodeDueTimeReached(b *testing.B) { benchmarkDecode(b, envelope.Reached(benchEvent)) }

// withData returns a command or an event of the benchmarks with 100 bytes of data.
func withData() (timer.ScheduleTimer, timer.DueTimeReached) {
	c, e := benchCommand, benchEvent
	c.Data = `{"order":"0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071","amount":1999,"currency":"EUR","retry":{"n":3},"x":true}`
	e.Data = c.Data
	return c, e
}

func BenchmarkDecodeScheduleTimerWithData(b *testing.B) {
	c, _ := withData()
	benchmarkDecode(b, envelope.Schedule(c))
}

func BenchmarkReachedWithData(b *testing.B) {
	_, e := withData()
	b.ReportAllocs()
	for b.Loop() {
		envelope.Reached(e)
	}
}

func BenchmarkDecodeOtherType(b *testing.B) {
	benchmarkDecode(b, []byte(`{"id":"1","type":"OrderPlaced","tenantId":"acme","payload":{"lines":[1,2,3]}}`))
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

func BenchmarkSchedule(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		envelope.Schedule(benchCommand)
	}
}

func BenchmarkReached(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		envelope.Reached(benchEvent)
	}
}

func BenchmarkEventID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		envelope.EventID(benchEvent)
	}
}

func BenchmarkHeadersOf(b *testing.B) {
	b.ReportAllocs()
	e := benchEvent
	e.ID = envelope.EventID(e)
	for b.Loop() {
		envelope.HeadersOf(e)
	}
}

func BenchmarkParseTime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := envelope.ParseTime("2030-01-31T12:30:00.500+01:00"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTenantOf(b *testing.B) {
	b.ReportAllocs()
	body := envelope.Schedule(benchCommand)
	for b.Loop() {
		envelope.TenantOf(body)
	}
}

func BenchmarkDecodeCloudEvent(b *testing.B) {
	benchmarkDecode(b, golden(b, "cloudevent_schedule_timer.json"))
}

func BenchmarkReachedAsCloudEvent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		cloudEvents.Reached(benchEvent)
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

func BenchmarkScheduleMany(b *testing.B) {
	c := many(timer.MaxScheduleTimers)
	b.ReportAllocs()
	for b.Loop() {
		envelope.ScheduleMany(c)
	}
}
