package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A sharded store is one whose outbox instances could share: it has one shard,
// which this instance owns when it is free.
type sharded struct {
	*sqlite.Store
	free   chan struct{} // closed when the shard can be owned
	lost   chan struct{} // closed when the first lease of it is lost; nil is never
	hidden atomic.Int64  // number of a row that is not there yet, though later ones are
}

// Outbox returns the shard.
func (s *sharded) Outbox() outbox.Outbox { return outbox.Sharded(s) }

func (s *sharded) Own(context.Context) (outbox.Lease, error) {
	select {
	case <-s.free:
		return s, nil
	default:
		return nil, errors.New("another instance has it")
	}
}

func (s *sharded) TakeOver(context.Context) (outbox.Lease, error) { return nil, nil } //nolint:nilnil // as the port has it

func (s *sharded) Shard() int { return 0 }

// Lost is closed for one lease: it is nil for the next.
func (s *sharded) Lost() <-chan struct{} {
	lost := s.lost
	s.lost = nil
	return lost
}

func (s *sharded) Release() {}

func (s *sharded) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	rows, err := s.Store.Head(ctx, after, limit)
	var there []outbox.Row
	for _, row := range rows {
		if row.Seq != s.hidden.Load() {
			there = append(there, row)
		}
	}
	return there, err
}

// onShards runs the app in a bubble, on a store with shards, and calls do with a
// function that asks for a timer.
func onShards(t *testing.T, do func(t *testing.T, s *sharded, b *simBroker, ask func(call string, due time.Time))) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		opened, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		s := &sharded{Store: opened, free: make(chan struct{})}
		b := newSimBroker(1, func(string) fault.Kind { return fault.None })
		a, err := app.New(s, b, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		<-a.Running()
		do(t, s, b, func(call string, due time.Time) {
			c := timer.ScheduleTimer{
				Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
				Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: call},
				DueAt:   due,
			}
			b.send(message.NewMessage(c.CommandID, envelope.Schedule(c)))
			synctest.Wait()
		})
		stopped := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

// TestNothingFiresBeforeAShardIsOwned: the event would go to a shard of another
// instance, which does not learn of it, and another one may recover the database.
func TestNothingFiresBeforeAShardIsOwned(t *testing.T) {
	onShards(t, func(t *testing.T, s *sharded, b *simBroker, ask func(string, time.Time)) {
		there := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: "there"},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "there"},
			DueAt:   time.Now(),
		}
		if _, err := s.Schedule(t.Context(), time.Now(), there); err != nil {
			t.Fatal(err)
		}
		ask("call", time.Now())
		time.Sleep(time.Minute)
		if stats, err := s.Stats(t.Context(), ""); err != nil || stats.Counts != (timer.Counts{Scheduled: 1}) {
			t.Errorf("%+v, want the timer that was there, which waits: %v", stats, err)
		}
		close(s.free)
		time.Sleep(2 * time.Second)
		if n := publishes(b); n != 2 {
			t.Errorf("%d events when there is a shard for them, want 2", n)
		}
	})
}

// TestStopsWhileNoShardIsOwned: it must not wait for one.
func TestStopsWhileNoShardIsOwned(t *testing.T) {
	onShards(t, func(_ *testing.T, _ *sharded, _ *simBroker, ask func(string, time.Time)) { ask("call", time.Now()) })
}

// publishes returns how many events were published.
func publishes(b *simBroker) int {
	events, _ := b.publishedSince(0, 0)
	return len(events)
}
