package outbox_test

import (
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

// A slowReader is a table whose reads take up to a second: what they return is as old.
type slowReader struct{ *table }

func (s *slowReader) wait() { time.Sleep(rand.N(time.Second)) }

func (s *slowReader) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	rows, err := s.table.Head(ctx, after, limit)
	s.wait()
	return rows, err
}

func (s *slowReader) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	rows, err := s.table.Deferred(ctx, now, from, limit, each)
	s.wait()
	return rows, err
}

// TestStaleReadPublishesNothingAgain has rows published and deleted, or deferred,
// while a read that began before is under way: it still returns them.
func TestStaleReadPublishesNothingAgain(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]int{"rows that are deleted": 0, "rows that are deferred first": 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &slowReader{new(table)}, new(model)
				p.takes = func(broker.Message) time.Duration { return 300 * time.Millisecond }
				var left atomic.Int64
				left.Store(int64(fails))
				p.publish = func(broker.Message) error {
					if left.Add(-1) >= 0 {
						return errors.New("not now")
					}
					return nil
				}
				f := forward(t, l, p, outbox.Options{Interval: 10 * time.Millisecond})
				for range 100 {
					l.append("a")
					f.Appended(1)
					time.Sleep(900 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				p.once(t, 100)
			})
		})
	}
}

// A brokenReader is a table whose reads end halfway, now and then: they return some rows, and
// an error.
type brokenReader struct{ *table }

func (b *brokenReader) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	rows, err := b.table.Head(ctx, after, limit)
	if rand.N(3) == 0 && err == nil {
		err = errors.New("the connection was lost")
	}
	return rows, err
}

func (b *brokenReader) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	rows, err := b.table.Deferred(ctx, now, from, limit, each)
	if rand.N(3) == 0 && err == nil {
		err = errors.New("the connection was lost")
	}
	return rows, err
}

// TestReadThatEndsHalfwayHoldsNoRow has rows come back with an error: they are read again.
func TestReadThatEndsHalfwayHoldsNoRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := &brokenReader{new(table)}, new(model)
		var failed sync.Map
		p.publish = func(m broker.Message) error {
			if _, again := failed.LoadOrStore(m.UUID, true); !again {
				return errTopic
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{})
		for range 100 {
			l.append("a")
			f.Appended(1)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := l.left(); len(left) > 0 {
			t.Errorf("rows %v wait", left)
		}
		p.once(t, 100)
	})
}
