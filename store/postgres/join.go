package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Each call in a host's transaction has a savepoint, because a statement that fails would
// otherwise end the transaction.
const (
	savepoint  = "SAVEPOINT timers"
	release    = "RELEASE SAVEPOINT timers"
	rollBackTo = "ROLLBACK TO SAVEPOINT timers"
)

// Join returns a value that applies commands in a transaction of the host, begun on a handle
// of pgx's database/sql driver. It sends statements one by one, since a *sql.Tx has no other
// way. In a transaction of [Store.Transact], or with [Store.JoinPgx], they go together.
//
// Until the transaction ends, commands for the same keys wait, and its timers do not fire. If
// it is one of Transact or ends within a second, NextDue and Reach see its timers as soon as
// it is committed; otherwise within a second of its commit.
func (s *Store) Join(tx *sql.Tx) timer.Transaction { return s.join(s.sender(tx)) }

// JoinPgx is [Store.Join] for a transaction that pgx itself has begun.
func (s *Store) JoinPgx(tx pgx.Tx) timer.Transaction {
	return s.join(func(ctx context.Context, steps ...step) error { return sendOpen(ctx, tx.Conn(), steps...) })
}

func (s *Store) join(send sendFunc) *hostTransaction {
	j := &hostTransaction{store: s, send: send}
	j.reader.Reader = store.Reader{SQL: statements, Rows: j.rows}
	return j
}

// sender returns the function that sends statements in a transaction: together if it is one of Transact.
func (s *Store) sender(tx *sql.Tx) sendFunc {
	if send, ok := s.hosted.Load(tx); ok {
		return send.(sendFunc)
	}
	return oneByOne(tx)
}

// sendOpen sends statements in the open transaction of a connection, and fails if there is
// none, because then each statement would commit by itself. The transaction has ended if the
// host has ended it, or its context, since database/sql then rolls it back at once.
func sendOpen(ctx context.Context, c *pgx.Conn, steps ...step) error {
	if c.PgConn().TxStatus() == 'I' {
		return sql.ErrTxDone
	}
	return send(ctx, c, steps...)
}

// oneByOne sends statements in a transaction of database/sql.
func oneByOne(tx *sql.Tx) sendFunc {
	return func(ctx context.Context, steps ...step) error {
		for _, s := range steps {
			if err := s.run(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// run runs a statement in a transaction of database/sql.
func (s step) run(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, s.text, s.args...) //nolint:rowserrcheck // read does
	if err != nil {
		return err
	}
	defer rows.Close()
	return s.read(rows, func() (unknown pgconn.CommandTag) { return unknown })
}

// A hostTransaction applies commands in a transaction of the host.
type hostTransaction struct {
	store  *Store
	send   sendFunc
	reader Reader // of the transaction
}

// List returns timers as the transaction sees them.
func (j *hostTransaction) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return j.reader.List(ctx, f)
}

// PutInbox adds messages to the inbox in the transaction.
func (j *hostTransaction) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return j.within(ctx, doingPut, func(t *transaction) error {
		t.putInbox(messages)
		return nil
	})
}

// rows runs a statement in the transaction and calls fn for each row.
func (j *hostTransaction) rows(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return j.within(ctx, doing, func(t *transaction) error {
		t.later(step{text: text, args: nullable(args), each: fn})
		return nil
	})
}

// within runs fn in a savepoint of the transaction.
func (j *hostTransaction) within(ctx context.Context, doing string, fn func(t *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return inTransaction(doing, err)
	}
	if err := j.store.readyInTransaction(ctx); err != nil {
		return classify(doing, err)
	}
	t := &transaction{store: j.store, send: j.send}
	return inTransaction(doing, j.saved(ctx, t, func() error {
		t.join()
		if err := fn(t); err != nil {
			return err
		}
		return t.now(ctx, step{text: sqlLeave})
	}))
}

// Schedule applies the commands in the transaction. If it returns an error, it has applied
// none.
func (j *hostTransaction) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	results, err := j.apply(ctx, store.Schedule(now, commands))
	if err == nil && len(commands) > 0 {
		j.store.watermark.expect(earliest(commands))
	}
	return results, err
}

// Cancel applies the commands in the transaction. If it returns an error, it has applied
// none.
func (j *hostTransaction) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return j.apply(ctx, store.Cancel(now, commands))
}

// apply applies commands, each step in a savepoint.
func (j *hostTransaction) apply(ctx context.Context, a *store.Application) ([]timer.Result, error) {
	return a.Apply(func(first, end int) error {
		return j.store.repeat(func() error {
			return j.within(ctx, a.Doing, func(t *transaction) error { return t.apply(ctx, a, first, end) })
		})
	}, func(steps func() error) error { return j.together(ctx, steps) })
}

// together calls steps in a savepoint that encloses the savepoints of the steps.
func (j *hostTransaction) together(ctx context.Context, steps func() error) error {
	t := &transaction{store: j.store, send: j.send}
	return j.saved(ctx, t, func() error {
		if err := t.flush(ctx); err != nil {
			return err
		}
		return steps()
	})
}

// saved runs fn in a savepoint, to which the transaction goes back if fn fails.
func (j *hostTransaction) saved(ctx context.Context, t *transaction, fn func() error) error {
	began := false
	t.later(step{text: savepoint, done: func(pgconn.CommandTag) { began = true }})
	err := fn()
	if err == nil {
		err = t.now(ctx, step{text: release})
	}
	if err == nil || !began {
		return err
	}
	// They go one by one: until the first has run, the second can't be prepared.
	for _, text := range [...]string{rollBackTo, release} {
		if undo := j.send(context.WithoutCancel(ctx), step{text: text}); undo != nil {
			return errors.Join(err, fmt.Errorf("the transaction can't go on: %w", undo))
		}
	}
	return err
}

var errElsewhere = errors.New("the transaction is on another database than the timers: begin it on theirs")

// join makes statements use indexes, until leave.sql ends that. It goes to the server with the
// next statement, and fails if the database is not that of the store.
func (t *transaction) join() {
	var database string
	t.later(step{text: sqlJoin, each: store.Scan(&database), check: func() error {
		if database != t.store.id {
			return errElsewhere
		}
		return nil
	}})
}

// inTransaction adds the text doing to an error in a host's transaction. No such error
// ends the service, because the host chose the transaction.
func inTransaction(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, timer.ErrInvalid), errors.Is(err, errPurged):
		return err
	case codeOf(err) == "42P01":
		err = fmt.Errorf("the transaction sees no timers: begin it on their database, with their schema in its search_path: %w", err)
	case strings.HasPrefix(err.Error(), "sql: converting argument"):
		err = fmt.Errorf("the transaction is not one of pgx: open its handle with sql.Open(\"pgx\", url): %w", err)
	}
	return fmt.Errorf("%s in a transaction: %w", doing, err)
}

// hosting runs a transaction of Transact. It returns the error of the caller's function as it is,
// which transact returns first.
func (s *Store) hosting(ctx context.Context, transact func() (failed, err error)) error {
	const doing = "transact"
	s.working.Add(1)
	defer s.working.Done()
	if err := s.ready(ctx); err != nil {
		return classify(doing, err)
	}
	began := time.Now() //nolint:forbidigo // as in watermark.go
	failed, err := transact()
	if failed != nil {
		return failed
	}
	if time.Since(began) > fullInterval { //nolint:forbidigo // as above
		s.watermark.set(time.Time{}) // its timers are not expected any more
	}
	return classify(doing, err)
}

// beginHosted sets the mode of a transaction of Transact, whatever isolation the database has as
// its default.
const beginHosted = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

// Transact runs fn in a transaction at READ COMMITTED. Transactions wait for each other only
// if they have the same rows. The timeouts are those of the handle, and the transaction is as
// durable as the database makes it, even with Relaxed.
func (s *Store) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return s.hosting(ctx, func() (failed, err error) {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		if _, err := tx.ExecContext(ctx, beginHosted+s.mode()); err != nil {
			return nil, err
		}
		s.hosted.Store(tx, sendFunc(func(ctx context.Context, steps ...step) error {
			return onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error { return sendOpen(ctx, c, steps...) })
		}))
		defer s.hosted.Delete(tx)
		if failed = fn(tx); failed != nil {
			return failed, nil
		}
		err = tx.Commit()
		if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) { // database/sql has rolled it back
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return nil, err
	})
}

// TakeEvent deletes an event of the outbox in a transaction of Transact.
func (s *Store) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error) {
	return s.takeEvent(ctx, s.sender(tx), row)
}

func (s *Store) takeEvent(ctx context.Context, send sendFunc, row outbox.Place) (bool, error) {
	const doing = "take an event"
	if err := s.ready(ctx); err != nil {
		return false, classify(doing, err)
	}
	t := &transaction{store: s, send: send}
	var taken int64
	t.join()
	t.later(step{text: sqlTake.On(row.Deferred), args: []any{int32(row.Shard), row.Seq}, each: store.Scan(&taken)})
	if err := t.now(ctx, step{text: sqlLeave}); err != nil {
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
	s := p.store
	return s.hosting(ctx, func() (failed, err error) {
		err = withConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
			tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin + s.mode()})
			if err != nil {
				return err
			}
			defer rollBack(ctx, c) // does nothing after a commit
			if failed = fn(tx); failed != nil {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return tx.Commit(ctx)
		})
		return failed, err
	})
}

// Join returns a value that applies commands in a transaction, which may also be one that the
// host has begun.
func (p Pgx) Join(tx pgx.Tx) timer.Transaction { return p.store.JoinPgx(tx) }

// TakeEvent deletes an event of the outbox in a transaction.
func (p Pgx) TakeEvent(ctx context.Context, tx pgx.Tx, row outbox.Place) (bool, error) {
	return p.store.takeEvent(ctx, func(ctx context.Context, steps ...step) error { return sendOpen(ctx, tx.Conn(), steps...) }, row)
}
