package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// A slowReader is a table whose reads take long: what they return is as old.
type slowReader struct {
	*table
	takes time.Duration
}

func (s *slowReader) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	rows, err := s.table.Head(ctx, after, limit)
	time.Sleep(s.takes)
	return rows, err
}

func (s *slowReader) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	rows, err := s.table.Deferred(ctx, now, from, limit, each)
	time.Sleep(s.takes)
	return rows, err
}

// TestStaleReadPublishesNothingAgain has rows published and deleted, or deferred,
// while a read that began before is under way: it still returns them.
func TestStaleReadPublishesNothingAgain(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]int{"rows that are deleted": 0, "rows that are deferred first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &slowReader{new(table), 700 * time.Millisecond}, new(model)
				p.takes = func(broker.Message) time.Duration { return 300 * time.Millisecond }
				left := fails
				p.publish = func(broker.Message) error {
					if left > 0 {
						left--
						return errors.New("not now")
					}
					return nil
				}
				f := forward(t, l, p, outbox.Options{Interval: 10 * time.Millisecond})
				l.append("a", "a", "a")
				f.Appended(3)
				time.Sleep(time.Minute)
				synctest.Wait()
				seen := make(map[string]int)
				for _, id := range p.ids["a"] {
					seen[id]++
				}
				if diff := cmp.Diff(map[string]int{"id-1": 1, "id-2": 1, "id-3": 1}, seen); diff != "" {
					t.Errorf("published (-want +got):\n%s", diff)
				}
			})
		})
	}
}
