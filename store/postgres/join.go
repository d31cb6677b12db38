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
// it is committed; else within a second of its commit.
func (s *Store) Join(tx *sql.Tx) timer.Commands {
	if h, ok := s.hosted.Load(tx); ok {
		return &joined{store: s, send: h.(*hosted).send, in: h.(*hosted)}
	}
	return &joined{store: s, send: oneByOne(tx)}
}

// JoinPgx is [Store.Join] for a transaction that pgx itself has begun.
func (s *Store) JoinPgx(tx pgx.Tx) timer.Commands {
	j := &joined{store: s, send: func(ctx context.Context, steps ...step) error { return sendOpen(ctx, tx.Conn(), steps...) }}
	if h, ok := s.hosted.Load(tx); ok {
		j.in = h.(*hosted)
	}
	return j
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
func oneByOne(tx *sql.Tx) sender {
	return func(ctx context.Context, steps ...step) error {
		for _, s := range steps {
			if err := s.run(ctx, tx); err != nil {
				return err
			}
			if s.done != nil {
				s.done(pgconn.CommandTag{})
			}
			if s.check != nil {
				if err := s.check(); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// run runs a statement in a transaction of database/sql.
func (s step) run(ctx context.Context, tx *sql.Tx) error {
	if s.each == nil {
		_, err := tx.ExecContext(ctx, s.text, s.args...)
		return err
	}
	rows, err := tx.QueryContext(ctx, s.text, s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.each(scanned{rows: rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A scanned is a row of database/sql. Of its methods only Scan works.
type scanned struct {
	pgx.Rows
	rows *sql.Rows
}

func (s scanned) Scan(dest ...any) error { return s.rows.Scan(dest...) }

// A joined applies commands in a transaction of the host.
type joined struct {
	store *Store
	send  sender
	in    *hosted // nil unless the transaction is one of Transact
}

// Schedule applies the commands in the transaction. If it returns an error, it has applied
// none.
func (j *joined) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	a := store.Schedule(now, commands)
	err := j.ready(ctx, a.Doing)
	if err == nil {
		err = apply(ctx, j, a, 0, len(commands))
	}
	switch {
	case err != nil, len(commands) == 0:
	case j.in != nil:
		j.in.due = sooner(j.in.due, earliest(commands))
	default:
		j.store.watermark.expect(earliest(commands))
	}
	return results(a, err)
}

// Cancel applies the commands in the transaction. If it returns an error, it has applied
// none.
func (j *joined) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	a := store.Cancel(now, commands)
	err := j.ready(ctx, a.Doing)
	if err == nil {
		err = apply(ctx, j, a, 0, len(commands))
	}
	return results(a, err)
}

func (j *joined) ready(ctx context.Context, doing string) error {
	if err := ctx.Err(); err != nil {
		return inTransaction(doing, err)
	}
	return classify(doing, j.store.ready(ctx))
}

// apply applies commands in a savepoint.
func (j *joined) apply(ctx context.Context, a *store.Application, first, end int) error {
	return j.store.repeat(func(referenced bool) error {
		t := &transaction{store: j.store, send: j.send}
		return inTransaction(a.Doing, j.saved(ctx, t, func() error {
			database := t.join()
			if err := t.apply(ctx, a, first, end, referenced); err != nil {
				return err
			}
			return t.leave(ctx, database)
		}))
	})
}

// together calls fn in a savepoint that encloses the savepoints of its steps.
func (j *joined) together(ctx context.Context, fn func() error) error {
	t := &transaction{store: j.store, send: j.send}
	return j.saved(ctx, t, func() error {
		if err := t.flush(ctx); err != nil {
			return err
		}
		return fn()
	})
}

// saved runs fn in a savepoint, to which the transaction goes back if fn fails.
func (j *joined) saved(ctx context.Context, t *transaction, fn func() error) error {
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

// flush sends the waiting statements.
func (t *transaction) flush(ctx context.Context) error {
	steps := t.waiting
	t.waiting = nil
	return t.send(ctx, steps...)
}

// join makes statements use indexes. It goes to the server with the next statement, and
// returns where the id of the database will be.
func (t *transaction) join() *string {
	database := new(string)
	t.later(step{text: sqlJoin, each: scan(database)})
	return database
}

// leave ends the effect of join, and returns an error if the database is not that of the
// store.
func (t *transaction) leave(ctx context.Context, database *string) error {
	t.later(step{text: sqlLeave})
	if err := t.flush(ctx); err != nil {
		return err
	}
	if *database != t.store.id {
		return errors.New("the transaction is on another database than the timers: begin it on theirs")
	}
	return nil
}

// inTransaction adds to an error what was being done in a host's transaction. No such error
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
