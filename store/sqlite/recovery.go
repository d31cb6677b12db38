package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// errReplaced says that the content of the file is older than it was.
var errReplaced = fmt.Errorf("%w: the database file has the content of an older copy: a restart reads the missing messages", timer.ErrFatal)

// Advance writes numbers. This process is the only one that does, so the count of its calls
// in the file says whether that is still the content that it wrote to.
func (s *Store) Advance(ctx context.Context, numbers ...timer.Number) error {
	if len(numbers) == 0 {
		return nil
	}
	rows := make([][4]any, len(numbers))
	for i, n := range numbers {
		rows[i] = [...]any{n.Broker, n.Log, n.Kind, n.Number}
	}
	var writes int64
	err := s.writing(ctx, "write the numbers", func(ctx context.Context, t *transaction) error {
		if err := each(ctx, t, store.Scan(&writes), sqlWritten); err != nil {
			return err
		}
		if before := s.numberWrites.Load(); before > 0 && writes != before+1 {
			return errReplaced
		}
		_, err := t.ExecContext(ctx, sqlAdvance, store.JSON(rows))
		return err
	})
	if err == nil {
		s.numberWrites.Store(writes)
	}
	return err
}

// checkContent returns an error that wraps [timer.ErrFatal] if the content of the file is
// older than it was.
func (s *Store) checkContent(ctx context.Context) error {
	before := s.numberWrites.Load()
	var writes int64
	err := s.rows(ctx, "read the numbers", sqlWrites, nil, store.Scan(&writes))
	if err == nil && writes < before {
		return errReplaced
	}
	return err
}

// Alone runs fn: the file has one owner.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

// Fired brings in events that were published.
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	return store.Fired(ctx, s.opt.Log, keep, events, func(a *store.Application, ids []string, first, end int) error {
		return s.step(ctx, a, first, end, func(ctx context.Context, t *transaction) error {
			for _, text := range [...]string{sqlFiredOutbox.Head, sqlFiredOutbox.Deferred} {
				if _, err := t.change(ctx, text, store.JSON(ids)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
