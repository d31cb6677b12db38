package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// CommitPositions makes transactions that apply commands, or settle events, note positions.
func (s *Store) CommitPositions(positions func() []timer.Position) { s.positions.SetCurrent(positions) }

// noting is [Store.writing] for a transaction that notes the positions there are as
// it begins. They go to the server with the commit: other transactions that note the
// same log wait for no more than that.
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

// note writes positions, if there are any, with the next statement.
func (t *transaction) note(advances []store.Advance) {
	n := len(advances)
	if n == 0 {
		return
	}
	logs, done, seen, wasDone, wasSeen := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, a := range advances {
		logs[i], done[i], seen[i], wasDone[i], wasSeen[i] = a.Log, a.Committed, a.Observed, a.Before.Committed, a.Before.Observed
	}
	t.later(step{text: sqlNote, args: []any{logs, done, seen, wasDone, wasSeen}})
}

// errOlder says that less is noted than was.
var errOlder = fmt.Errorf("%w: the database is older than it was: it was restored, or failed over to a server that lagged; a restart recovers it", timer.ErrFatal)

// compare returns a statement that reads the positions, and fails if less is noted than
// this instance knows. One that owns no shard knows nothing: the one that recovers the
// database may yet forget positions.
func (s *Store) compare() (_ step, ok bool) {
	if !s.owned.Load() {
		return step{}, false
	}
	var there []timer.Position
	found := s.positions.Compare()
	return step{
		text: sqlPositions,
		each: func(rows pgx.Rows) error {
			var p timer.Position
			err := rows.Scan(&p.Log, &p.Committed, &p.Observed)
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

// notOlder returns an error that wraps [timer.ErrFatal] if the database is older than it
// was.
func (s *Store) notOlder(ctx context.Context) error {
	step, ok := s.compare()
	if !ok {
		return nil
	}
	return classify("compare the positions", readTx(ctx, s.db, step))
}

// Noted returns what is noted of the broker's logs.
func (r *Reader) Noted(ctx context.Context) (n timer.Noted, err error) {
	err = r.rows(ctx, "read the positions", sqlNoted, nil, func(rows pgx.Rows) error {
		var log *string
		var done, seen *int64
		if err := rows.Scan(&n.Empty, &log, &done, &seen); err != nil {
			return err
		}
		if log != nil {
			n.Positions = append(n.Positions, timer.Position{Log: *log, Committed: *done, Observed: *seen})
		}
		return nil
	})
	if err != nil {
		return timer.Noted{}, err
	}
	n.Empty = n.Empty && len(n.Positions) == 0
	return n, nil
}

// ReplacePositions notes positions in place of all that there are.
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

// Results of alone.sql.
const (
	isAlone  = 0
	isShared = 1
)

// Alone runs fn while a lease holds a lock exclusively that running instances share, in
// the transactions of their own leases.
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

// Fired brings in events that were published. It locks timers as commands do, see
// application.
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	ids, events := store.Published(events)
	a := firedEvents(keep, events)
	results, err := s.repeat(a, func(referenced bool, results []timer.Result) error {
		return s.writing(ctx, a.doing, func(ctx context.Context, t *transaction) error {
			if err := a.all(ctx, t, referenced, results); err != nil {
				return err
			}
			t.later(step{text: sqlFiredOutbox, args: []any{ids}})
			return nil
		})
	})
	for _, r := range results {
		if r.Outcome == timer.DidReschedule {
			changed++
		}
	}
	return changed, err
}

// firedEvents applies events as if they were commands, each of another key, that make
// a timer Reached.
func firedEvents(keep time.Duration, events []timer.DueTimeReached) application {
	return application{
		doing:    "bring in published events",
		count:    len(events),
		key:      func(i int) timer.Key { return events[i].Key },
		receipts: func([]timer.Result) []timer.Receipt { return nil },
		meet: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			return before.Fired(events[i].ReachedAt, keep)
		},
		absent: func(results []timer.Result, keys []*group) { // there is nothing to fire
			for _, g := range keys {
				for _, i := range g.commands {
					results[i].Outcome = timer.WasReached
				}
			}
		},
		insert: func(ctx context.Context, t *transaction, groups []*group) ([]int64, error) {
			c := firedColumns(groups, events)
			tenants, calls := keysOf(groups)
			return t.numbers(ctx, sqlFiredNew, tenants, calls, c.ids, c.due, c.reached, c.correlations, c.parents, c.states, c.data)
		},
		update: func(ctx context.Context, t *transaction, groups []*group) (changed int64, err error) {
			c := firedColumns(groups, events)
			places, canceled := placesOf(groups)
			err = t.rows(ctx, sqlFired, []any{places, canceled, c.due, c.reached}, scan(&changed))
			return changed, err
		},
	}
}

// eventColumns are events, field by field.
type eventColumns struct {
	ids                                 []string
	due, reached                        []time.Time
	correlations, parents, states, data []string
}

// firedColumns returns the event of each group.
func firedColumns(groups []*group, events []timer.DueTimeReached) (c eventColumns) {
	for _, g := range groups {
		e := &events[g.commands[0]]
		c.ids, c.due, c.reached = append(c.ids, e.ID), append(c.due, e.DueAt), append(c.reached, e.ReachedAt)
		c.correlations, c.data = append(c.correlations, e.CorrelationID), append(c.data, e.Data)
		c.parents, c.states = append(c.parents, e.Trace.Parent), append(c.states, e.Trace.State)
	}
	return c
}
