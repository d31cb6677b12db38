package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// CommitPositions makes transactions that apply commands, or settle events, record positions.
func (s *Store) CommitPositions(positions func() []timer.Position) { s.positions.SetCurrent(positions) }

// noting is [Store.writing] for a transaction that records the positions that the broker had
// at its beginning. They go to the server with the commit. Two transactions that record the
// same positions wait for each other, and so only for the commit.
func (s *Store) noting(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	var advances []store.Advance
	err := s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		positions := s.positions.Current()
		if err := fn(ctx, t); err != nil {
			return err
		}
		advances = s.positions.Advances(positions)
		t.note(advances)
		return nil
	})
	if err == nil {
		s.positions.Commit(advances)
	}
	return err
}

// note records positions, if there are any, with the next statement.
func (t *transaction) note(advances []store.Advance) {
	n := len(advances)
	if n == 0 {
		return
	}
	logs, committed, observed, wasCommitted, wasObserved := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, a := range advances {
		logs[i], committed[i], observed[i], wasCommitted[i], wasObserved[i] = a.Log, a.Committed, a.Observed, a.Before.Committed, a.Before.Observed
	}
	t.later(step{text: sqlNote, args: []any{logs, committed, observed, wasCommitted, wasObserved}})
}

// trimmed has the positions that two calls of trim kept, by log.
type trimmed struct{ before, last map[string]timer.Position }

// trim deletes the positions that others are ahead of, in the logs that have other positions
// than the last call found. It begins at what the call before that found, to delete rows that
// were committed late, too. Other instances that record the same logs trim them as well.
func (s *Store) trim(ctx context.Context, found *trimmed) error {
	var logs []string
	var committed, observed []int64
	for _, at := range s.positions.All() {
		if begin := found.before[at.Log]; found.last[at.Log] != at {
			logs, committed, observed = append(logs, at.Log), append(committed, begin.Committed), append(observed, begin.Observed)
		}
	}
	if len(logs) == 0 {
		return nil
	}
	next := make(map[string]timer.Position)
	maps.Copy(next, found.last)
	err := s.writing(ctx, "trim the positions", func(ctx context.Context, t *transaction) error {
		return t.rows(ctx, sqlTrimPositions, []any{logs, committed, observed}, func(row store.Scanner) error {
			var p timer.Position
			err := row.Scan(&p.Log, &p.Committed, &p.Observed)
			next[p.Log] = p
			return err
		})
	})
	if err == nil {
		found.before, found.last = found.last, next
	}
	return err
}

// errOlder says that the database has lower positions than it had.
var errOlder = fmt.Errorf("%w: the database is older than it was: it was restored, or failed over to a server that lagged; a restart recovers it", timer.ErrFatal)

// compare returns a step that reads the positions, and fails if they are lower than this
// instance has committed. It returns false while the instance owns no shard: then the
// instance that recovers the database may yet delete positions.
func (s *Store) compare() (_ step, ok bool) {
	if !s.owned.Load() {
		return step{}, false
	}
	var there []timer.Position
	found := s.positions.Compare()
	return step{
		text: sqlPositions,
		each: func(row store.Scanner) error {
			var p timer.Position
			err := row.Scan(&p.Log, &p.Committed, &p.Observed)
			there = append(there, p)
			return err
		},
		check: func() error {
			if found(there) {
				return errOlder
			}
			return nil
		},
	}, true
}

// notOlder returns an error that wraps [timer.ErrFatal] if the database is older than it was.
func (s *Store) notOlder(ctx context.Context) error {
	step, ok := s.compare()
	if !ok {
		return nil
	}
	return classify("compare the positions", readTx(ctx, s.db, step))
}

// ReplacePositions replaces all recorded positions.
func (s *Store) ReplacePositions(ctx context.Context, positions []timer.Position) error {
	all := new(store.Positions).Advances(positions)
	err := s.writing(ctx, "replace the positions", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlForgetPositions})
		t.note(all)
		return nil
	})
	if err == nil {
		s.positions.Replace(all)
	}
	return err
}

// These are the results of alone.sql.
const (
	isAlone  = 0
	isShared = 1
)

// Alone runs fn while a lease holds exclusively the lock that running instances share.
// Instances hold it in the transactions of their leases.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error {
	l, err := s.lease(ctx, sqlAlone, "")
	if err != nil {
		return classify("verify the database", err)
	}
	defer l.Release()
	switch l.number {
	case isShared:
		return nil
	case isAlone:
	default:
		return errVerifying
	}
	alone, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(l.held, func() { end(errNotAlone) })()
	if err = fn(alone); err != nil {
		err = errors.Join(context.Cause(alone), err)
	}
	return err
}

var errVerifying = errors.New("another instance verifies the database, or recovers it")

var errNotAlone = errors.New("the server did not answer for a while: another instance may recover the database")

// Fired applies published events to their timers, and removes the events from the outbox. It
// locks timers as commands do.
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	a, ids := store.Fired(keep, events)
	err = s.repeat(func() error {
		return s.writing(ctx, a.Doing, func(ctx context.Context, t *transaction) error {
			if err := t.apply(ctx, a, 0, len(a.Results)); err != nil {
				return err
			}
			t.later(step{text: sqlFiredOutbox, args: []any{ids}})
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return a.Changed(), nil
}
