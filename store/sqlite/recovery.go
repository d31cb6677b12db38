package sqlite

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// CommitPositions makes transactions that apply commands, or settle events, note positions.
func (s *Store) CommitPositions(positions func() []timer.Position) { s.positions.SetCurrent(positions) }

// noting is [Store.writing] for transactions that apply commands or settle events. It also
// writes the positions in the broker's logs, as they are when the transaction begins, so
// that a copy of the database says how far it has come.
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
	_, err := t.ExecContext(ctx, sqlNote, store.JSON(rows))
	return err
}

// ReplacePositions notes positions in place of all others.
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
	a, ids := store.Fired(keep, events)
	err = s.step(ctx, a, 0, len(a.Results), func(ctx context.Context, t *transaction) error {
		for _, text := range [...]string{sqlFiredOutbox.Head, sqlFiredOutbox.Deferred} {
			deleted, err := t.change(ctx, text, store.JSON(ids))
			if err != nil {
				return err
			}
			t.count(outboxCount).outbox -= deleted
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return a.Changed(), nil
}
