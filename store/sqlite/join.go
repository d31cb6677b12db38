package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// How a call in a host's transaction begins and ends.
const (
	savepoint  = "SAVEPOINT timers"
	release    = "RELEASE timers"
	rollBackTo = "ROLLBACK TO timers"
)

// These tell a host how to begin a transaction that the store can join.
const (
	beginLocked = "begin it on a handle that was opened with sqlite.DSN, so that it has the write lock from its beginning, or use Transact"
	beginThere  = "begin it on the database of the timers"
)

// Join returns commands that are applied in a transaction of the host program, which must be on
// the same file. From the first call to its end the transaction has the write lock of
// the file: all others wait, in this process and elsewhere, for as long as their busy
// timeout says.
func (s *Store) Join(tx *sql.Tx) timer.Transaction {
	j := &hostTransaction{store: s, tx: tx}
	j.commands = commands{within: j.within, together: j.together}
	j.reader.Reader = store.Reader{SQL: statements, Rows: j.rows}
	return j
}

// A hostTransaction applies commands in a transaction of the host program.
type hostTransaction struct {
	commands
	reader Reader // of the transaction

	store *Store
	tx    *sql.Tx
	ours  bool // the transaction has the write lock, and is on the file of the store
}

// within runs fn in a savepoint of the transaction.
func (j *hostTransaction) within(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	return classify(doing+" in a transaction", j.run(ctx, fn))
}

// List returns timers as the transaction sees them.
func (j *hostTransaction) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return j.reader.List(ctx, f)
}

// PutInbox adds messages to the inbox in the transaction.
func (j *hostTransaction) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return j.within(ctx, doingPut, func(ctx context.Context, t *transaction) error { return t.putInbox(ctx, messages) })
}

// rows runs a statement in the transaction and calls fn for each row.
func (j *hostTransaction) rows(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return j.within(ctx, doing, func(ctx context.Context, t *transaction) error {
		return each(ctx, t, fn, text, arguments(args)...)
	})
}

// together calls steps in a savepoint that encloses theirs.
func (j *hostTransaction) together(ctx context.Context, doing string, steps func() error) error {
	return j.within(ctx, doing, func(context.Context, *transaction) error { return steps() })
}

func (j *hostTransaction) run(ctx context.Context, fn func(context.Context, *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ready, err := j.store.ready(ctx)
	if err != nil {
		return err
	}
	if err := j.store.intact(ready); err != nil {
		return err
	}
	endless := context.WithoutCancel(ctx)
	t := j.store.in(j.tx)
	if err := t.mustBeOpen(endless); err != nil {
		return err
	}
	if err := j.check(endless, ready); err != nil {
		return err
	}
	if _, err := t.ExecContext(endless, savepoint); err != nil {
		return err
	}
	if err = fn(endless, t); err == nil {
		if err = t.writeCounts(endless); err == nil {
			_, err = t.ExecContext(endless, release)
		}
	}
	if err == nil {
		return nil
	}
	for _, text := range [...]string{rollBackTo, release} {
		if _, undo := t.ExecContext(endless, text); undo != nil {
			return errors.Join(err, fmt.Errorf("the transaction can't go on: %w", undo))
		}
	}
	return err
}

// mustBeOpen returns an error if SQLite has rolled the transaction back by itself: for
// a conflict that the host resolves so (INSERT OR ROLLBACK), a RAISE(ROLLBACK), a full
// disk. Statements go through all the same then, and each commits by itself. There is no
// other way to know that from here than to begin a transaction, which fails in one.
func (t *transaction) mustBeOpen(ctx context.Context) error {
	switch _, err := t.tx.ExecContext(ctx, "BEGIN"); {
	case codeOf(err) == sqlite3.SQLITE_ERROR:
		return nil
	case err != nil && codeOf(err) == 0 && !errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("the transaction is not one of modernc's driver: open its handle with sql.Open(%q, sqlite.DSN(path)): %w", "sqlite", err)
	case err != nil:
		return err
	}
	_, err := t.tx.ExecContext(ctx, "ROLLBACK")
	return errors.Join(fmt.Errorf("the transaction has ended: SQLite rolled it back after an error of a statement before: %w", sql.ErrTxDone), err)
}

// check takes the write lock and finds out whether the transaction is on the file of
// the store, the first time.
func (j *hostTransaction) check(ctx context.Context, ready *readiness) error {
	if j.ours {
		return nil
	}
	switch _, err := j.tx.ExecContext(ctx, sqlLock); codeOf(err) & 0xff {
	case sqlite3.SQLITE_OK:
		if err != nil {
			return err
		}
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("another transaction has the write lock, or had it since this one began to read: %s: %w", beginLocked, err)
	case sqlite3.SQLITE_ERROR:
		return fmt.Errorf("the transaction sees no timers: %s: %w", beginThere, err)
	default:
		return err
	}
	var path string
	if err := j.tx.QueryRowContext(ctx, sqlFile).Scan(&path); err != nil {
		return err
	}
	if path != ready.file.path {
		return fmt.Errorf("the transaction is on %q, the timers are in %q: %s", path, ready.file.path, beginThere)
	}
	j.ours = true
	return nil
}

// Transact runs fn in a transaction that waits its turn: no other transaction writes
// through the store meanwhile, and none fails because of another's lock.
func (s *Store) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	var failed error
	err := s.transact(ctx, func(_ context.Context, t *transaction) error {
		failed = fn(t.tx)
		return failed
	})
	if failed != nil {
		return failed
	}
	return classify("transact", err)
}

// TakeEvent deletes an event of the outbox in a transaction of Transact.
func (s *Store) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (taken bool, err error) {
	j := &hostTransaction{store: s, tx: tx, ours: true}
	err = j.within(ctx, "take an event", func(ctx context.Context, t *transaction) error {
		deleted, err := t.change(ctx, sqlDelete.On(row.Deferred), row.Seq, row.Seq)
		taken = deleted > 0
		return err
	})
	return taken && err == nil, err
}
