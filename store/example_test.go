package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// newYear is when the examples take place.
var newYear = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// inTemporaryStores calls an example with two empty stores, and prints its error.
func inTemporaryStores(example func(ctx context.Context, a, b *sqlite.Store) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	a, err := sqlite.Open(ctx, filepath.Join(dir, "a.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	b, err := sqlite.Open(ctx, filepath.Join(dir, "b.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	if err := example(ctx, a, b); err != nil {
		fmt.Println(err)
	}
}

// order returns the command for the timer of an order.
func order(id timer.ServiceCallID) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: id},
		Version: timer.Version{TimestampMS: newYear.UnixMilli(), CommandID: "c-" + string(id)},
		DueAt:   newYear.Add(time.Hour),
	}
}

// Commands that come at once share a commit, and each has its own result.
func ExampleBatch() {
	inTemporaryStores(func(ctx context.Context, s, _ *sqlite.Store) error {
		batch := store.NewBatch(s, store.BatchOptions{})
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				if _, err := batch.Schedule(ctx, newYear, order(timer.ServiceCallID(fmt.Sprint("order-", i)))); err != nil {
					fmt.Println(err)
				}
			})
		}
		callers.Wait()
		counts, err := s.Stats(ctx, "acme")
		fmt.Println("scheduled:", counts.Scheduled)
		return err
	})
	// Output: scheduled: 100
}

// All of a store moves to another one, of any kind, that is empty.
func ExampleImport() {
	inTemporaryStores(func(ctx context.Context, from, to *sqlite.Store) error {
		if _, err := from.Schedule(ctx, newYear, order("order-1"), order("order-2")); err != nil {
			return err
		}
		var file bytes.Buffer
		exported, err := store.Export(ctx, from, store.Header{ExportedAt: newYear}, &file, nil)
		if err != nil {
			return err
		}
		fmt.Println("exported:", exported.Timers.Scheduled)
		text := file.String()
		imported, err := store.Import(ctx, to, strings.NewReader(text), newYear, nil)
		if err != nil {
			return err
		}
		fmt.Println("the same:", imported == exported)
		_, err = store.Import(ctx, to, strings.NewReader(text), newYear, nil)
		fmt.Println("again:", errors.Is(err, store.ErrNotEmpty))
		return nil
	})
	// Output:
	// exported: 2
	// the same: true
	// again: true
}

// Finished timers are deleted when they have been kept for long enough.
func ExampleRetention() {
	inTemporaryStores(func(ctx context.Context, s, _ *sqlite.Store) error {
		if _, err := s.Schedule(ctx, newYear, order("order-1")); err != nil {
			return err
		}
		if _, err := s.Cancel(ctx, newYear, timer.CancelTimer{Key: order("order-1").Key, Version: timer.Version{TimestampMS: newYear.UnixMilli() + 1, CommandID: "c-2"}}); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		clock := timer.ClockFunc(func() time.Time { return newYear.AddDate(0, 0, 8) })
		retention := store.NewRetention(s.Purge, clock, slog.New(slog.DiscardHandler), store.RetentionOptions{Keep: 7 * 24 * time.Hour})
		ended := make(chan error, 1)
		go func() { ended <- retention.Run(ctx) }()
		for {
			_, err := s.Get(ctx, order("order-1").Key)
			if err == nil {
				continue
			}
			fmt.Println("purged:", errors.Is(err, timer.ErrNotFound))
			stop()
			return <-ended
		}
	})
	// Output: purged: true
}
