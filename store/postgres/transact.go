package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/outbox"
)

// A hosted is a transaction of Transact, and what was scheduled in it.
type hosted struct {
	store *Store
	conn  *sql.Conn
	due   time.Time // the earliest; zero if there is none
}

// send sends statements together.
func (h *hosted) send(ctx context.Context, steps ...step) error {
	return onDriver(ctx, h.conn, func(ctx context.Context, c *pgx.Conn) error { return sendOpen(ctx, c, steps...) })
}

// beginHosted is what a transaction of Transact is, whatever the database has as its
// default.
const beginHosted = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE"

// Transact runs fn in a transaction at READ COMMITTED. There is no turn to wait for:
// only who has the same rows waits. The limits of time are those of the handle, and
// the transaction is as durable as the database makes it, also with Relaxed.
func (s *Store) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	const doing = "transact"
	s.working.begin()
	defer s.working.end()
	if err := s.ready(ctx); err != nil {
		return classify(doing, err)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return classify(doing, err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return classify(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, beginHosted); err != nil {
		return classify(doing, err)
	}
	h := &hosted{store: s, conn: conn}
	s.hosted.Store(tx, h)
	defer s.hosted.Delete(tx)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) { // so database/sql has rolled it back
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return classify(doing, err)
	}
	if !h.due.IsZero() {
		s.watermark.set(h.due)
	}
	return nil
}

// TakeEvent deletes an event of the outbox in a transaction of Transact.
func (s *Store) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error) {
	const doing = "take an event"
	if err := s.ready(ctx); err != nil {
		return false, classify(doing, err)
	}
	t := &transaction{store: s, send: oneByOne(tx)}
	if h, ok := s.hosted.Load(tx); ok {
		t.send = h.(*hosted).send
	}
	var taken int64
	database := t.join()
	t.later(step{text: sqlTake.On(row.Deferred), args: []any{int32(row.Shard), row.Seq}, each: scan(&taken)})
	if err := t.leave(ctx, database); err != nil {
		return false, inTransaction(doing, err)
	}
	return taken > 0, nil
}
