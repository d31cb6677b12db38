package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// These statements begin and end transactions, whatever the database has as its default.
const (
	beginWriting = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	beginReading = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
	commit       = "COMMIT"
	rollback     = "ROLLBACK"
)

// reading returns the steps that begin a transaction that only reads.
func reading() []step {
	return []step{{text: beginReading}, {text: sqlSettings, args: []any{false}}}
}

// A transaction is a transaction on the server. It sends statements together: a statement
// whose result is not needed yet goes with the next one, or with the commit.
type transaction struct {
	store   *Store
	send    sender
	waiting []step // not sent yet
}

// A sender sends statements to the server, and stops at the first that fails.
type sender func(context.Context, ...step) error

// writing runs fn in a transaction, which commits if fn returns nil.
func (s *Store) writing(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	return classify(doing, s.transact(ctx, fn))
}

func (s *Store) transact(ctx context.Context, fn func(context.Context, *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.working.begin()
	defer s.working.end()
	if err := s.ready(ctx); err != nil {
		return err
	}
	return onConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
		t := &transaction{store: s, send: func(ctx context.Context, steps ...step) error { return send(ctx, c, steps...) }}
		t.later(step{text: beginWriting})
		t.later(step{text: sqlSettings, args: []any{s.opt.Durability == Relaxed}})
		defer rollBack(ctx, c) // does nothing after a commit
		if err := fn(ctx, t); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.commit(ctx)
	})
}

// rollBack ends the transaction of a connection, if there is one, even after its context has
// ended or after a panic.
func rollBack(ctx context.Context, c *pgx.Conn) {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := send(ctx, c, step{text: rollback}); err != nil {
		_ = c.Close(ctx) // rolls back too
	}
}

// later sends a statement with the next one.
func (t *transaction) later(s step) { t.waiting = append(t.waiting, s) }

// now sends the waiting statements and then this one, and waits for the results.
func (t *transaction) now(ctx context.Context, s step) error {
	t.later(s)
	steps := t.waiting
	t.waiting = nil
	return t.send(ctx, steps...)
}

// commit commits, unless nothing was sent.
func (t *transaction) commit(ctx context.Context) error {
	const begin = 2 // statements
	if len(t.waiting) == begin && t.waiting[0].text == beginWriting {
		return nil
	}
	var tag pgconn.CommandTag
	if err := t.now(ctx, step{text: commit, done: func(got pgconn.CommandTag) { tag = got }}); err != nil {
		return err
	}
	if tag.String() != commit {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// rows runs a statement and calls fn for each row.
func (t *transaction) rows(ctx context.Context, text string, args []any, fn func(pgx.Rows) error) error {
	return t.now(ctx, step{text: text, args: args, each: fn})
}

// numbers runs a statement and returns its only column.
func (t *transaction) numbers(ctx context.Context, text string, args ...any) (all []int64, err error) {
	err = t.rows(ctx, text, args, func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		all = append(all, n)
		return err
	})
	return all, err
}

// Update runs fn in one transaction.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	err := s.writing(ctx, "update", func(_ context.Context, t *transaction) error { return fn(t) })
	failpoint.Here("reached")
	return err
}
