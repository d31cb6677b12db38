package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// A cutTable is a table whose reads end as a function says, with the rows that they have read before.
type cutTable struct {
	*table
	ends func() error
}

func (r *cutTable) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	rows, err := r.table.Head(ctx, after, limit)
	return rows, cmp.Or(err, r.ends())
}

func (r *cutTable) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	rows, err := r.table.Deferred(ctx, now, from, limit, each)
	return rows, cmp.Or(err, r.ends())
}

// arrive appends n rows, one after each pause, and waits until the forwarder has settled them.
func (r *cutTable) arrive(f *outbox.Forwarder, n int, pause time.Duration) {
	for range n {
		r.append("a")
		f.Appended(1)
		time.Sleep(pause)
	}
	wait(time.Minute)
}

// TestStaleReadPublishesNothingAgain has rows published and deleted, or deferred,
// while a read that began before is under way: it still returns them.
func TestStaleReadPublishesNothingAgain(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]int{"rows that are deleted": 0, "rows that are deferred first": 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func() error { time.Sleep(rand.N(time.Second)); return nil }
				l, p := &cutTable{new(table), slow}, new(model)
				p.takes = func(broker.Message) time.Duration { return 300 * time.Millisecond }
				var left atomic.Int64
				left.Store(int64(fails))
				p.publish = failIf(errors.New("not now"), func(broker.Message) bool { return left.Add(-1) >= 0 })
				f := forward(t, l, p, outbox.Options{Interval: 10 * time.Millisecond})
				l.arrive(f, 100, 900*time.Millisecond)
				p.once(t, 100)
			})
		})
	}
}

// TestReadThatEndsHalfwayHoldsNoRow has rows come back with an error: they are read again.
func TestReadThatEndsHalfwayHoldsNoRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		halfway := func() error {
			if rand.N(3) == 0 {
				return errors.New("the connection was lost")
			}
			return nil
		}
		l, p := &cutTable{new(table), halfway}, new(model)
		var failed sync.Map
		p.publish = func(m broker.Message) error {
			if _, again := failed.LoadOrStore(m.UUID, true); !again {
				return errTopic
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{})
		l.arrive(f, 100, 100*time.Millisecond)
		if left := l.left(); len(left) > 0 {
			t.Errorf("rows %v wait", left)
		}
		p.once(t, 100)
	})
}
