package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Track has transactions that apply commands, or settle events, note positions.
func (s *Store) Track(positions func() []timer.Position) { s.positions.Track(positions) }

// noting is [Store.writing] for a transaction that notes the positions there are as
// it begins. They go to the server with the commit: other transactions that note the
// same log wait for no more than that.
func (s *Store) noting(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	var risen []store.Rise
	err := s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		positions := s.positions.Now()
		if err := fn(ctx, t); err != nil {
			return err
		}
		risen = s.positions.Risen(positions)
		t.note(risen)
		return nil
	})
	if err == nil {
		s.positions.Noted(risen)
	}
	return err
}

// note writes positions, if there are any, with the next statement.
func (t *transaction) note(risen []store.Rise) {
	n := len(risen)
	if n == 0 {
		return
	}
	logs, done, seen, wasDone, wasSeen := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range risen {
		logs[i], done[i], seen[i], wasDone[i], wasSeen[i] = r.Log, r.Done, r.Seen, r.Before.Done, r.Before.Seen
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
			err := rows.Scan(&p.Log, &p.Done, &p.Seen)
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
		var since *time.Time
		var log *string
		var done, seen *int64
		if err := rows.Scan(&since, &n.Empty, &log, &done, &seen); err != nil {
			return err
		}
		n.Recovering = instant(since)
		if log != nil {
			n.Positions = append(n.Positions, timer.Position{Log: *log, Done: *done, Seen: *seen})
		}
		return nil
	})
	if err != nil {
		return timer.Noted{}, err
	}
	n.Empty = n.Empty && len(n.Positions) == 0
	return n, nil
}

// BeginRecovery notes since when a recovery is under way.
func (s *Store) BeginRecovery(ctx context.Context, now time.Time) error {
	return s.writing(ctx, "begin a recovery", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlBeginRecovery, args: []any{timer.RoundDown(now)}})
		return nil
	})
}

// EndRecovery replaces the positions.
func (s *Store) EndRecovery(ctx context.Context, positions []timer.Position) error {
	all := store.Rises(positions)
	err := s.writing(ctx, "end a recovery", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlEndRecovery})
		t.later(step{text: sqlForgetPositions})
		t.note(all)
		return nil
	})
	if err == nil {
		s.positions.Replace(all)
	}
	return err
}

// aloneInterval is how often an instance tries to be the one that recovers.
const aloneInterval = 250 * time.Millisecond

// Alone runs fn while a lease is held that no other instance can have, as those of
// shards are.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error {
	l, err := s.lease(ctx, sqlAlone)
	for l == nil {
		if err != nil {
			return classify("wait to be alone", err)
		}
		if !pause.For(ctx, aloneInterval) {
			return ctx.Err()
		}
		l, err = s.lease(ctx, sqlAlone)
	}
	defer l.Release()
	alone, end := context.WithCancelCause(ctx)
	defer end(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-l.lost:
			end(errNotAlone)
		case <-alone.Done():
		}
	}()
	err = fn(alone)
	if lost := context.Cause(alone); err != nil && errors.Is(lost, errNotAlone) {
		err = errors.Join(lost, err)
	}
	end(nil)
	<-stopped
	return err
}

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
	s.recent.forget()
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
			if before.State == timer.Reached || before.State != "" && before.Version.TimestampMS > events[i].ReachedAt.Add(keep).UnixMilli() {
				return before, timer.WasReached
			}
			return timer.Status{State: timer.Reached, Version: before.Version}, timer.DidReschedule
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
