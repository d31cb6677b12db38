package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// CommitPositions makes transactions that apply commands, or settle events, note positions.
func (s *Store) CommitPositions(positions func() []timer.Position) { s.positions.SetCurrent(positions) }

// noting is [Store.writing] for a transaction that notes the positions there are as
// it begins.
func (s *Store) noting(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	var advances []store.Advance
	err := s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		positions := s.positions.Current()
		if err := fn(ctx, t); err != nil {
			return err
		}
		advances = s.positions.Advances(positions)
		return t.note(ctx, advances)
	})
	if err == nil {
		s.positions.Commit(advances)
	}
	return err
}

// note writes positions, if there are any.
func (t *transaction) note(ctx context.Context, advances []store.Advance) error {
	if len(advances) == 0 {
		return nil
	}
	rows := make([][3]any, len(advances))
	for i, a := range advances {
		rows[i] = [...]any{a.Log, a.Committed, a.Observed}
	}
	text, err := array(rows)
	if err == nil {
		_, err = t.ExecContext(ctx, sqlNote, text)
	}
	return err
}

// array returns a JSON array as an argument: one statement, which can be prepared,
// takes any number of rows.
func array[T any](rows []T) (string, error) {
	text, err := json.Marshal(rows)
	return string(text), err
}

// Noted returns what is noted of the broker's logs.
func (r *Reader) Noted(ctx context.Context) (n timer.Noted, err error) {
	const doing = "read the positions"
	rows, err := r.reads.QueryContext(ctx, sqlNoted)
	if err != nil {
		return n, classify(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var done, seen sql.NullInt64
		var log sql.NullString
		if err := rows.Scan(&n.Empty, &log, &done, &seen); err != nil {
			return timer.Noted{}, classify(doing, err)
		}
		if log.Valid {
			n.Positions = append(n.Positions, timer.Position{Log: log.String, Committed: done.Int64, Observed: seen.Int64})
		}
	}
	n.Empty = n.Empty && len(n.Positions) == 0
	return n, classify(doing, rows.Err())
}

// ReplacePositions notes positions in place of all that there are.
func (s *Store) ReplacePositions(ctx context.Context, positions []timer.Position) error {
	all := new(store.Positions).Advances(positions)
	err := s.writing(ctx, "replace the positions", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlForgetPositions); err != nil {
			return err
		}
		return t.note(ctx, all)
	})
	if err == nil {
		s.positions.Replace(all)
	}
	return err
}

// Alone runs fn: the file has one owner.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

// Fired brings in events that were published.
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	ids, events := store.Published(events)
	err = s.writing(ctx, "bring in published events", func(ctx context.Context, t *transaction) error {
		for some := range slices.Chunk(events, firedRows) {
			n, err := t.fired(ctx, keep, some)
			if err != nil {
				return err
			}
			changed += n
		}
		return t.forgetEvents(ctx, ids)
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// fired marks the timers of events, each of another key, and returns how many it
// marked: of those that wait or are Canceled, and of those that there were not. Where
// a foreign key asks for a service call that does not exist, there is nothing to fire.
func (t *transaction) fired(ctx context.Context, keep time.Duration, events []timer.DueTimeReached) (changed int, err error) {
	for _, state := range [...]timer.State{timer.Scheduled, timer.Canceled} {
		args := []any{string(state), keep.Milliseconds()}
		for _, e := range events {
			args = append(args, string(e.TenantID), string(e.ServiceCallID), e.DueAt.UnixMilli(), e.ReachedAt.UnixMilli())
		}
		marked, err := t.tenantsOf(ctx, firedText(sqlFired, sqlFiredChunk, len(events)), args)
		if err != nil {
			return 0, err
		}
		for _, tenant := range marked {
			c := t.count(tenant)
			c.Reached++
			if state == timer.Scheduled {
				c.Scheduled--
			} else {
				c.Canceled--
			}
		}
		if changed += len(marked); changed == len(events) { // as it mostly is
			return changed, nil
		}
	}
	added, err := t.addFired(ctx, events)
	return changed + added, err
}

// addFired leaves timers that are Reached for events that have none.
func (t *transaction) addFired(ctx context.Context, events []timer.DueTimeReached) (added int, err error) {
	var args []any
	for _, e := range events {
		reached := e.ReachedAt.UnixMilli()
		args = append(args, string(e.TenantID), string(e.ServiceCallID), e.DueAt.UnixMilli(), reached, reached, reached, e.ID,
			text(e.CorrelationID), text(e.Trace.Parent), text(e.Trace.State), text(e.Data))
	}
	tenants, err := t.tenantsOf(ctx, firedText(sqlFiredNew, sqlFiredNewChunk, len(events)), args)
	if isMissing(err) && len(events) > 1 {
		for i := range events {
			n, err := t.addFired(ctx, events[i:i+1])
			if err != nil {
				return 0, err
			}
			added += n
		}
		return added, nil
	}
	for _, tenant := range tenants {
		t.count(tenant).Reached++
	}
	if isMissing(err) {
		err = nil
	}
	return len(tenants), err
}

// firedText returns the statement for n events.
func firedText(one, chunk string, n int) string {
	if n == firedRows {
		return chunk
	}
	return repeatValues(one, n)
}

// tenantsOf runs a statement that returns the tenant of each row that it changed.
func (t *transaction) tenantsOf(ctx context.Context, text string, args []any) (tenants []timer.TenantID, err error) {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var tenant timer.TenantID
		if err := rows.Scan((*string)(&tenant)); err != nil {
			return nil, err
		}
		tenants = append(tenants, tenant)
	}
	return tenants, rows.Err()
}

// forgetEvents removes events from the outbox by their ids.
func (t *transaction) forgetEvents(ctx context.Context, ids []string) error {
	list, err := array(ids)
	if err != nil {
		return err
	}
	for _, text := range [...]string{sqlFiredOutbox.Head, sqlFiredOutbox.Deferred} {
		deleted, err := t.change(ctx, text, list)
		if err != nil {
			return err
		}
		t.count(outboxCount).outbox -= deleted
	}
	return nil
}
