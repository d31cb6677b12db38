package poller_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// inTemporaryStore calls an example with a store, and prints its error.
func inTemporaryStore(example func(ctx context.Context, s *sqlite.Store) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(dir, "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := example(ctx, s); err != nil {
		fmt.Println(err)
	}
}

// scheduleOrder schedules a timer of an order.
func scheduleOrder(ctx context.Context, s timer.Store, now, due time.Time) error {
	_, err := s.Schedule(ctx, now, timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: "c-1"},
		DueAt:   due,
	})
	return err
}

// A timer that is due fires: its state changes and its event is in the outbox, in one
// commit. Publishing the event is up to package outbox.
func ExamplePoller() {
	inTemporaryStore(func(ctx context.Context, s *sqlite.Store) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		p := poller.New(s, realClock, slog.New(slog.DiscardHandler), poller.Options{
			Reached: func(events []timer.DueTimeReached) {
				for _, e := range events {
					fmt.Println("fired:", e.Key)
				}
				stop()
			},
		})
		now := realClock.Now()
		if err := scheduleOrder(ctx, s, now, now.Add(10*time.Millisecond)); err != nil {
			return err
		}
		if err := p.Run(ctx); err != nil { // until ctx is done
			return err
		}
		stats, err := s.Stats(context.Background(), "")
		fmt.Println("events in the outbox:", stats.Outbox)
		return err
	})
	// Output:
	// fired: acme.order-1
	// events in the outbox: 1
}

// A poller that sleeps is notified of a timer which is due sooner.
func ExamplePoller_Sooner() {
	inTemporaryStore(func(ctx context.Context, s *sqlite.Store) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		p := poller.New(s, realClock, slog.New(slog.DiscardHandler), poller.Options{
			Interval: time.Hour, // without Sooner the timer would be an hour late
			Reached:  func([]timer.DueTimeReached) { stop() },
		})
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for p.Status().Phase != poller.Sleeping {
			continue
		}
		now := realClock.Now()
		due := now.Add(10 * time.Millisecond)
		if err := scheduleOrder(ctx, s, now, due); err != nil {
			return err
		}
		p.Sooner(due)
		err := <-ended
		fmt.Println("an hour early:", realClock.Now().Before(due.Add(time.Minute)))
		return err
	})
	// Output: an hour early: true
}
