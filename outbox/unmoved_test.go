package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// TestRowsThatCannotBeMovedDelayNoOther has a table that takes no deferred or parked rows,
// as after an upgrade without grants, while a topic fails and another one refuses.
func TestRowsThatCannotBeMovedDelayNoOther(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"defer", "park"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := new(table), new(model)
				var broken atomic.Bool
				broken.Store(true)
				l.fail = func(called string) error {
					if broken.Load() && called == op {
						return errors.New("permission denied for table timer_outbox_" + op)
					}
					return nil
				}
				p.publish = func(m broker.Message) error {
					switch {
					case m.Topic == "bad" && op == "defer":
						return errTopic
					case m.Topic == "bad":
						return broker.ErrRefused
					}
					return nil
				}
				f := forward(t, l, p, outbox.Options{MaxAttempts: 1})
				for i := range 30 {
					for j := range 100 {
						l.append(map[bool]string{true: "bad", false: fmt.Sprint("good-", j%7)}[i%15 == 0 && j == 0])
					}
					f.Appended(100)
					time.Sleep(time.Second)
				}
				if left := l.left(); len(left) != 2 {
					t.Errorf("%d rows are left, want the two that fail", len(left))
				}
				if err := f.Status().Unmoved; err == nil || !strings.Contains(err.Error(), "timer_outbox_"+op) {
					t.Errorf("status: %v", err)
				}
				p.mu.Lock()
				calls := p.calls
				p.mu.Unlock()
				time.Sleep(time.Minute)
				if p.mu.Lock(); p.calls-calls > 15 {
					t.Errorf("rows that can't be moved were published %d times a minute", p.calls-calls)
				}
				broken.Store(false)
				p.mu.Unlock()
				time.Sleep(time.Minute)
				if err := f.Status().Unmoved; err != nil {
					t.Errorf("after the repair: %v", err)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if op == "park" && len(l.parked) != 2 || op == "defer" && len(l.deferred) != 2 {
					t.Errorf("after the repair %d rows are parked and %d deferred", len(l.parked), len(l.deferred))
				}
			})
		})
	}
}

// TestARowThatCannotBeDeletedDelaysNoOther has a table that refuses to delete one row, as a
// trigger may, while others come and go in batches with it.
func TestARowThatCannotBeDeletedDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var broken atomic.Bool
		broken.Store(true)
		l.refuse = func(row outbox.Place) error {
			if broken.Load() && row.Seq == 7 {
				return errors.New("no deletes on timer_outbox")
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{Batch: 50})
		for range 20 {
			l.add(f, slices.Repeat([]string{"a"}, 100)...)
			time.Sleep(time.Second)
		}
		if left := l.left(); len(left) != 1 {
			t.Errorf("rows %v are left, want the one that can't be deleted", left)
		}
		if n := len(p.ids["a"]); n != 2000 {
			t.Errorf("published %d times, want each of 2,000 once", n)
		}
		if err := f.Status().Unmoved; err == nil || !strings.Contains(err.Error(), "timer_outbox") {
			t.Errorf("status: %v", err)
		}
		broken.Store(false)
		time.Sleep(2 * time.Minute)
		if left, err := l.left(), f.Status().Unmoved; len(left) != 0 || err != nil {
			t.Errorf("after the repair: rows %v are left, %v", left, err)
		}
	})
}

// TestATableThatDeletesNothingHoldsEventsBack has a table that refuses every delete: what
// is published meanwhile is bounded, since a process that ends publishes it again.
func TestATableThatDeletesNothingHoldsEventsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var broken atomic.Bool
		broken.Store(true)
		l.refuse = func(outbox.Place) error {
			if broken.Load() {
				return errors.New("permission denied for table timer_outbox")
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{Batch: 50})
		for range 100 {
			l.add(f, slices.Repeat([]string{"a"}, 100)...)
			time.Sleep(time.Second)
		}
		p.mu.Lock()
		published := len(p.ids["a"])
		p.mu.Unlock()
		if published > 500 {
			t.Errorf("published %d events of which none was deleted", published)
		}
		broken.Store(false)
		time.Sleep(2 * time.Minute)
		if left := l.left(); len(left) != 0 || len(p.ids["a"]) != 10_000 {
			t.Errorf("after the repair %d rows are left, %d were published", len(left), len(p.ids["a"]))
		}
	})
}
