package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

func id(seq int64) string { return fmt.Sprint("id-", seq) }

// A lateTable has rows that are not committed yet.
type lateTable struct {
	*table
	hidden map[int64]bool // guarded by the table's lock
}

func (l *lateTable) Head(ctx context.Context, after int64, limit int) (rows []outbox.Row, err error) {
	all, err := l.table.Head(ctx, after, limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range all {
		if !l.hidden[row.Seq] {
			rows = append(rows, row)
		}
	}
	return rows, err
}

func (l *lateTable) hide(seq int64, hide bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hidden[seq] = hide
}

// lateShards is one shard, which one instance owns.
type lateShards struct{ *lateTable }

func (l lateShards) Own(context.Context, outbox.Receivers) (outbox.Lease, error) { return l, nil }
func (l lateShards) TakeOver(context.Context) (outbox.Lease, error)              { return nil, nil } //nolint:nilnil // as the port has it
func (l lateShards) Shard() int                                                  { return 0 }
func (l lateShards) Lost() <-chan struct{}                                       { return nil }
func (l lateShards) Release()                                                    {}

// TestRowThatCommitsLateIsFoundSoon has transactions that append to a shard commit in
// another order than that of their numbers, while others wake the forwarder all the time.
func TestRowThatCommitsLateIsFoundSoon(t *testing.T) {
	t.Parallel()
	for _, between := range []time.Duration{time.Millisecond, 20 * time.Millisecond, time.Second} { // wakes
		t.Run(between.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &lateTable{new(table), make(map[int64]bool)}, new(model)
				f := newForwarder(t, outbox.Outbox{Shards: lateShards{l}}, p, outbox.Options{})
				<-f.Ready()
				var seq int64
				append := func(n int) {
					for range n {
						l.append("a")
						seq++
						f.Appended(1)
						time.Sleep(between)
					}
				}
				append(200)
				late := seq + 1
				l.hide(late, true)
				l.append("a")
				seq++
				append(max(1, int(40*time.Millisecond/between)))
				l.hide(late, false)
				committed := time.Now()
				f.Appended(1)
				append(200)
				wait(time.Second)
				limit := 55 * time.Millisecond
				if between < 100*time.Millisecond && p.at(id(late)).Sub(committed) > limit {
					t.Errorf("it was published %v after its commit, want at most %v", p.at(id(late)).Sub(committed), limit)
				}
				p.once(t, seq)
			})
		})
	}
}

// A slowTable takes long to read from the first row, as PostgreSQL does while a transaction
// holds a snapshot.
type slowTable struct {
	*table
	slow atomic.Bool
}

const slowRead = 20 * time.Second

func (s *slowTable) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	if after == 0 && s.slow.Load() {
		select {
		case <-time.After(slowRead):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.table.Head(ctx, after, limit)
}

// TestSlowReadFromTheFirstRowHoldsUpNothing has events come while the outbox is read from its
// first row, one of them without a notification.
func TestSlowReadFromTheFirstRowHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, p := &slowTable{table: new(table)}, new(model)
		f := newForwarder(t, outbox.Outbox{Table: slow}, p, outbox.Options{Interval: time.Second})
		<-f.Ready()
		slow.append("a")
		f.Appended(1)
		synctest.Wait()
		slow.slow.Store(true)
		for seq := int64(2); seq < 100; seq++ {
			time.Sleep(time.Second / 3)
			slow.append("a")
			appended, want := time.Now(), time.Duration(0)
			if seq%10 == 0 {
				time.Sleep(time.Second)
				want = time.Second
			} else {
				f.Appended(1)
			}
			synctest.Wait()
			if late := p.at(id(seq)).Sub(appended); late < 0 || late > want {
				t.Errorf("event %d was published %v late, want at most %v", seq, late, want)
			}
			if stuck := f.Status().Stuck; stuck > 0 {
				t.Errorf("nothing has left for %v, says the status", stuck)
			}
		}
	})
}

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
