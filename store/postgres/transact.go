package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A hosted is a transaction of Transact, with the earliest due time that was scheduled in it.
type hosted struct {
	send sender    // sends statements together
	due  time.Time // earliest due time; zero if none was scheduled
}

// beginHosted sets the mode of a transaction of Transact, whatever the database has as its
// default.
const beginHosted = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE"

// Transact runs fn in a transaction at READ COMMITTED. Transactions wait for each other only
// if they have the same rows. The timeouts are those of the handle, and the transaction is as
// durable as the database makes it, even with Relaxed.
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
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, beginHosted); err != nil {
		return classify(doing, err)
	}
	h := &hosted{send: func(ctx context.Context, steps ...step) error {
		return onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error { return sendOpen(ctx, c, steps...) })
	}}
	s.hosted.Store(tx, h)
	defer s.hosted.Delete(tx)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) { // database/sql has rolled it back
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
	send := oneByOne(tx)
	if h, ok := s.hosted.Load(tx); ok {
		send = h.(*hosted).send
	}
	return s.takeEvent(ctx, send, row)
}

func (s *Store) takeEvent(ctx context.Context, send sender, row outbox.Place) (bool, error) {
	const doing = "take an event"
	if err := s.ready(ctx); err != nil {
		return false, classify(doing, err)
	}
	t := &transaction{store: s, send: send}
	var taken int64
	database := t.join()
	t.later(step{text: sqlTake.On(row.Deferred), args: []any{int32(row.Shard), row.Seq}, each: scan(&taken)})
	if err := t.leave(ctx, database); err != nil {
		return false, inTransaction(doing, err)
	}
	return taken > 0, nil
}

// A Pgx runs transactions that pgx itself begins on the connections of a [Store].
type Pgx struct{ store *Store }

// Pgx returns the value that app.Tx and app.OnDueTx need for transactions of pgx.
func (s *Store) Pgx() Pgx { return Pgx{s} }

// Transact is [Store.Transact] with a transaction of pgx, on a connection of the store's
// handle. A handle of stdlib.OpenDBFromPool uses the connections of the pool.
func (p Pgx) Transact(ctx context.Context, fn func(tx pgx.Tx) error) error {
	const doing = "transact"
	s := p.store
	s.working.begin()
	defer s.working.end()
	if err := s.ready(ctx); err != nil {
		return classify(doing, err)
	}
	var failed error // the error of fn
	h := new(hosted)
	err := withConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer rollBack(ctx, c) // does nothing after a commit
		h.send = func(ctx context.Context, steps ...step) error { return sendOpen(ctx, c, steps...) }
		s.hosted.Store(tx, h)
		defer s.hosted.Delete(tx)
		if failed = fn(tx); failed != nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return classify(doing, err)
	case !h.due.IsZero():
		s.watermark.set(h.due)
	}
	return nil
}

// Join returns a value that applies commands in a transaction, which may also be one that the
// host has begun.
func (p Pgx) Join(tx pgx.Tx) timer.Commands { return p.store.JoinPgx(tx) }

// TakeEvent deletes an event of the outbox in a transaction.
func (p Pgx) TakeEvent(ctx context.Context, tx pgx.Tx, row outbox.Place) (bool, error) {
	return p.store.takeEvent(ctx, func(ctx context.Context, steps ...step) error { return sendOpen(ctx, tx.Conn(), steps...) }, row)
}
