package app_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkOnDue has 10,000 timers fire at once and be handled in this process: by a
// handler that does nothing, and by one that writes a row with the deletion of its event.
func BenchmarkOnDue(b *testing.B) {
	const timers = 10_000
	for name, on := range map[string]func(t *app.Timers, done func()){
		"OnDue": func(t *app.Timers, done func()) {
			t.OnDue("", func(context.Context, timer.DueTimeReached) error { done(); return nil }, app.OnDueOptions{})
		},
		"OnDueTx": func(t *app.Timers, done func()) {
			t.OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO handled (call) VALUES (?)`, string(e.ServiceCallID))
				done()
				return err
			}, app.OnDueOptions{})
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "timers.db"), sqlite.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.DB().ExecContext(b.Context(), `CREATE TABLE handled (call TEXT NOT NULL) STRICT`); err != nil {
					b.Fatal(err)
				}
				commands := make([]timer.ScheduleTimer, timers)
				for i := range commands {
					id := strconv.Itoa(i)
					commands[i] = timer.ScheduleTimer{Key: keyOf(id), Version: timer.Version{TimestampMS: 1, CommandID: id}, DueAt: time.Now()}
				}
				if _, err := s.Schedule(b.Context(), time.Now(), commands...); err != nil {
					b.Fatal(err)
				}
				a, err := app.New(s, nil, quiet, app.Options{})
				if err != nil {
					b.Fatal(err)
				}
				var n atomic.Int64
				all := make(chan struct{})
				on(a.Timers(), func() {
					if n.Add(1) == timers {
						close(all)
					}
				})
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				b.StartTimer()
				began := time.Now()
				go func() { ended <- a.Run(ctx) }()
				<-all
				took += time.Since(began)
				b.StopTimer()
				stop()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*timers/took.Seconds(), "events/s")
		})
	}
}
