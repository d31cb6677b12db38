package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// transact schedules a timer in a transaction of the store, which ends as fn says.
func (s *joinedSuite) transact(ctx context.Context, k timer.Key, fn func(tx *sql.Tx) error) error {
	s.Helper()
	return s.joined.Transact(ctx, func(tx *sql.Tx) error {
		if _, err := s.joined.Join(tx).Schedule(ctx, noon, schedule(k, 1, noon)); err != nil {
			return err
		}
		return fn(tx)
	})
}

var errOurs = errors.New("ours")

func transactCommits(s *joinedSuite) {
	s.timers("acme", 1, noon.Add(time.Hour))
	s.same("next due", s.nextDue(), noon.Add(time.Hour))
	s.must(s.transact(s.Context(), key("acme", "new"), func(tx *sql.Tx) error {
		s.same("next due, meanwhile", s.nextDue(), noon.Add(time.Hour))
		s.same("canceled", s.outcomes(s.joined.Join(tx).Cancel(s.Context(), noon, cancel(key("acme", "none"), 1))), []timer.Outcome{timer.DidCancel})
		return nil
	}))
	s.same("next due", s.nextDue(), noon)
	s.same("reached", len(s.reach(noon, 10)), 1)
}

func transactFails(s *joinedSuite) {
	s.same("next due", s.nextDue().IsZero(), true)
	err := s.transact(s.Context(), key("acme", "new"), func(*sql.Tx) error { return errOurs })
	s.same("the error is that of fn", err == errOurs, true) //nolint:errorlint // it is
	s.countsAreRight()
	s.absent("new")
	s.must(s.transact(s.Context(), key("acme", "new"), func(*sql.Tx) error { return nil }))
	s.same("next due", s.nextDue(), noon)
}

func transactPanics(s *joinedSuite) {
	func() {
		defer func() { s.same("panic", recover(), any("ours")) }()
		_ = s.transact(s.Context(), key("acme", "new"), func(*sql.Tx) error { panic("ours") })
	}()
	s.countsAreRight()
	s.absent("new")
	s.must(s.transact(s.Context(), key("acme", "new"), func(*sql.Tx) error { return nil }))
}

func transactEnds(s *joinedSuite) {
	ctx, end := context.WithCancel(s.Context())
	s.passes(s.transact(ctx, key("acme", "new"), func(tx *sql.Tx) error {
		end()
		_, _ = s.joined.Join(tx).Schedule(context.WithoutCancel(ctx), noon, schedule(key("acme", "after"), 1, noon)) // it may be rolled back by now
		return nil
	}))
	s.absent("new", "after")
	called := false
	s.passes(s.joined.Transact(ctx, func(*sql.Tx) error { called = true; return nil }))
	s.same("called after the end", called, false)
}

func transactWaits(s *joinedSuite) {
	const soon = 20 * time.Millisecond
	k := key("acme", "call-1")
	s.must(s.transact(s.Context(), k, func(*sql.Tx) error {
		for name, write := range map[string]func(context.Context) error{
			"schedule": func(ctx context.Context) error {
				_, err := s.store.Schedule(ctx, noon, schedule(k, 2, noon))
				return err
			},
			"cancel": func(ctx context.Context) error {
				_, err := s.store.Cancel(ctx, noon, cancel(k, 2))
				return err
			},
			"transact": func(ctx context.Context) error {
				return s.transact(ctx, k, func(*sql.Tx) error { return nil })
			},
		} {
			ctx, end := context.WithTimeout(s.Context(), soon)
			if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("%s inside a transaction: %v, want that its context ended", name, err)
			}
			end()
		}
		return nil
	}))
	s.same("version", s.get(k).Version, version(1))
}

// fired fires n timers and returns the rows of their events.
func (s *joinedSuite) fired(n int) []outbox.Row {
	s.Helper()
	s.timers("acme", n, noon)
	s.same("fired", len(s.fire(noon.Add(time.Hour), n)), n)
	rows := s.head(0, n)
	s.same("rows", len(rows), n)
	return rows
}

func (s *joinedSuite) take(row outbox.Place) (taken bool, err error) {
	s.Helper()
	err = s.joined.Transact(s.Context(), func(tx *sql.Tx) error {
		taken, err = s.joined.TakeEvent(s.Context(), tx, row)
		return err
	})
	return taken && err == nil, err
}

func takeOnce(s *joinedSuite) {
	rows := s.fired(3)
	s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: rows[1].Place, Reason: "later", Destination: "events", RetryAt: noon}))
	rows[1] = s.deferred(noon, "", 1, 1)[0]
	for _, want := range []bool{true, false} {
		for _, row := range rows[:2] {
			taken, err := s.take(row.Place)
			s.must(err)
			s.same("taken", taken, want)
		}
		s.countsAreRight()
		s.same("left", len(s.waiting()), 1)
	}
}

func takeConcurrently(s *joinedSuite) {
	const events, takers = 10, 4
	rows := s.fired(events)
	var taken [events]atomic.Int64
	var running sync.WaitGroup
	for t := range takers {
		running.Go(func() {
			for i, row := range rows {
				for goesBack := i%takers == t; ; goesBack = false {
					var mine bool
					err := s.joined.Transact(s.Context(), func(tx *sql.Tx) (err error) {
						if mine, err = s.joined.TakeEvent(s.Context(), tx, row.Place); err == nil && mine && goesBack {
							return errOurs
						}
						return err
					})
					if errors.Is(err, errOurs) {
						continue
					}
					s.check(err)
					if mine {
						taken[i].Add(1)
					}
					break
				}
			}
		})
	}
	running.Wait()
	for i := range taken {
		s.same(fmt.Sprint("event ", i, " taken"), taken[i].Load(), int64(1))
	}
	s.same("left", len(s.waiting()), 0)
}

func takeAfterEnd(s *joinedSuite) {
	rows := s.fired(1)
	err := s.joined.Transact(s.Context(), func(tx *sql.Tx) error {
		s.must(tx.Rollback())
		taken, err := s.joined.TakeEvent(s.Context(), tx, rows[0].Place)
		if taken || err == nil {
			s.Errorf("taken %v, %v after the end of the transaction", taken, err)
		}
		return err
	})
	s.same("failed", err != nil, true)
	s.same("left", len(s.waiting()), 1)
}

func takeEnded(s *joinedSuite) {
	rows := s.fired(1)
	s.must(s.joined.Transact(s.Context(), func(tx *sql.Tx) error {
		ctx, end := context.WithCancel(s.Context())
		end()
		taken, err := s.joined.TakeEvent(ctx, tx, rows[0].Place)
		s.passes(err)
		s.same("taken", taken, false)
		return nil
	}))
	s.same("left", len(s.waiting()), 1)
}
