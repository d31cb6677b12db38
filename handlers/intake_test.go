package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A flood delivers b.N commands, as many at once as a driver has in flight.
type flood struct{ bodies [][]byte }

func (f *flood) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	w, err := inflight.NewSubscriptions(inflight.NewTerm()).Open(ctx, inflight.Options{})
	if err != nil {
		return nil, err
	}
	w.Run(func(intake context.Context) {
		for _, body := range f.bodies {
			w.Add(parcel{body}, 1)
		}
		<-intake.Done()
		w.Close()
	})
	return w.Messages(), nil
}

func (f *flood) Close() error { return nil }

// A parcel is a delivery from no server.
type parcel struct{ body []byte }

func (p parcel) Bytes() int                { return len(p.body) }
func (p parcel) Stale() bool               { return false }
func (p parcel) Ack()                      {}
func (p parcel) Retry(time.Duration) bool  { return true }
func (p parcel) Return()                   {}
func (p parcel) Message() *message.Message { return message.NewMessage("id", p.body) }

// BenchmarkIntake has commands pass the router and group commit into SQLite, and
// reports the CPU time of each.
func BenchmarkIntake(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "timers.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	f := new(flood)
	due := time.Now().Add(time.Hour)
	for i := range b.N {
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: timer.TenantID(fmt.Sprint("tenant-", i%20)), ServiceCallID: timer.ServiceCallID(fmt.Sprintf("call-%012x", i*2654435761))},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprintf("0197f5a0-0000-7000-9000-%012x", i)},
			DueAt:   due, CorrelationID: fmt.Sprintf("0197f5a0-0000-7000-a000-%012x", i),
		}
		f.bodies = append(f.bodies, envelope.Schedule(c))
	}
	ctx, stop := context.WithCancel(b.Context())
	handled := make(chan struct{}, b.N)
	h := handlers.New(store.NewBatch(s, s.Inbox(), 0), s.Inbox(), routing, f, newHarness(), timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), handlers.Options{
		Handled: func(handlers.Result) { handled <- struct{}{} },
	})
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	for range b.N {
		<-handled
	}
	b.StopTimer()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "µs-cpu/command")
}
