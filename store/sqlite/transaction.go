package sqlite

import (
	"context"
	"database/sql"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A transaction writes to the database while this process has the turn. It uses prepared
// statements where there are any.
type transaction struct {
	store *Store
	tx    *sql.Tx
	known map[string]*sql.Stmt // prepared statements of the database, by text; may be nil
	used  map[string]*sql.Stmt // those of tx, by text; nil if not prepared

	counts map[timer.TenantID]*count
}

// writing waits for the turn and runs fn in a transaction. It commits if fn returns nil, and
// only into the file that was opened.
//
// Statements get a context without an end: each is short, and a context that can end costs a
// goroutine a statement. The end of ctx is looked for between statements.
func (s *Store) writing(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	return classify(doing, s.transact(ctx, fn))
}

// transact is writing whose errors do not say what was being done.
func (s *Store) transact(ctx context.Context, fn func(context.Context, *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ready, err := s.ready(ctx)
	if err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx) // of a host's handle; may wait for the host
	if err != nil {
		return err
	}
	defer conn.Close()
	endless := context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(endless, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	t := s.in(tx)
	t.known = ready.statements
	if _, err := t.ExecContext(endless, sqlLock); err != nil {
		return err
	}
	if err := fn(endless, t); err != nil {
		return err
	}
	if err := t.writeCounts(endless); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ready.file.check(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.commits.Add(1)
	return nil
}

// in returns a transaction that a host began, without prepared statements.
func (s *Store) in(tx *sql.Tx) *transaction {
	return &transaction{store: s, tx: tx, used: make(map[string]*sql.Stmt, 4), counts: make(map[timer.TenantID]*count)}
}

// stmt returns a statement that is prepared already, or nil.
func (t *transaction) stmt(ctx context.Context, text string) *sql.Stmt {
	stmt, ok := t.used[text]
	if !ok {
		if stmt = t.known[text]; stmt != nil {
			stmt = t.tx.StmtContext(ctx, stmt)
		}
		t.used[text] = stmt
	}
	return stmt
}

// ExecContext runs a statement.
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if stmt := t.stmt(ctx, text); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return t.tx.ExecContext(ctx, text, args...)
}

// QueryContext runs a statement that returns rows.
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if stmt := t.stmt(ctx, text); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return t.tx.QueryContext(ctx, text, args...)
}

// QueryRowContext runs a statement that returns at most one row.
func (t *transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if stmt := t.stmt(ctx, text); stmt != nil {
		return stmt.QueryRowContext(ctx, args...)
	}
	return t.tx.QueryRowContext(ctx, text, args...)
}

// change runs a statement and returns how many rows it changed.
func (t *transaction) change(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := t.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Update runs fn in one transaction.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	err := s.writing(ctx, "update", func(_ context.Context, t *transaction) error { return fn(t) })
	failpoint.Here("reached")
	return err
}

// Emit appends events to the outbox.
func (t *transaction) Emit(ctx context.Context, events ...timer.DueTimeReached) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := outbox.Append(context.WithoutCancel(ctx), t, outbox.Insert{Rows: appendRows, Text: appends}, t.store.opt.Events, events...)
	t.count(outboxCount).outbox += int64(len(events))
	failpoint.Here("emitted")
	return err
}

// EmitReceipts appends receipts to the outbox.
func (t *transaction) EmitReceipts(ctx context.Context, receipts ...timer.Receipt) error {
	if err := ctx.Err(); err != nil || len(receipts) == 0 {
		return err
	}
	err := outbox.AppendReceipts(context.WithoutCancel(ctx), t, outbox.Insert{Rows: appendRows, Text: appends}, t.store.opt.Events, receipts...)
	t.count(outboxCount).outbox += int64(len(receipts))
	return err
}
