package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A sharded store is one whose outbox instances could share: it has one shard,
// which this instance owns when it is free.
type sharded struct {
	*sqlite.Store
	free chan struct{} // closed when the shard can be owned
	lost chan struct{} // closed when the first lease of it is lost; nil is never
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

// TestNothingFiresBeforeAShardIsOwned: the event would go to a shard of another instance,
// which does not learn of it, and another one may recover the database. Nor is a command
// taken. A stop does not wait for a shard.
func TestNothingFiresBeforeAShardIsOwned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		opened, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		s, b := &sharded{Store: opened, free: make(chan struct{})}, newSimBroker(1, nil)
		put(t, opened, "acme", time.Now(), "there")
		c := timer.ScheduleTimer{Key: keyOf("call"), Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "call"}, DueAt: time.Now()}
		b.send(message.NewMessage(c.CommandID, envelope.Schedule(c)))
		for _, owns := range []bool{false, true} {
			if owns {
				close(s.free)
			}
			a, err := app.New(s, b, quiet, app.Options{})
			if err != nil {
				t.Fatal(err)
			}
			stop := running(t, "app", a.Run)
			<-a.Running()
			time.Sleep(time.Minute)
			want := timer.Counts{Scheduled: 1}
			if owns {
				want = timer.Counts{Reached: 2}
			}
			if stats, err := s.Stats(t.Context(), ""); err != nil || stats.Counts != want {
				t.Errorf("%+v, want %+v: %v", stats.Counts, want, err)
			}
			began := time.Now()
			stop()
			if took := time.Since(began); took > time.Second {
				t.Errorf("the stop took %v", took)
			}
		}
		if events, _ := b.publishedSince(0, 0); len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}
