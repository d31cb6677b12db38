package sqlite

import (
	"context"
	"database/sql"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A transaction is the write side of the database while it is our turn. It uses
// prepared statements where there are any.
type transaction struct {
	store *Store
	tx    *sql.Tx
}

// writing runs fn in a transaction, when it is our turn. It commits if fn
// returns nil, and only into the file that was opened.
func (s *Store) writing(ctx context.Context, doing string, fn func(*transaction) error) error {
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return classify(doing+": wait for other writers", ctx.Err())
	}
	if err := s.statements.prepare(ctx, s.write); err != nil {
		return err
	}
	if err := s.file.check(ctx, s.write); err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return classify(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(&transaction{s, tx}); err != nil {
		return classify(doing, err)
	}
	if err := s.file.check(ctx, s.write); err != nil {
		return err
	}
	return classify(doing, tx.Commit())
}

// ExecContext runs a statement.
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if stmt := t.store.statements.get(text); stmt != nil {
		return t.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	}
	return t.tx.ExecContext(ctx, text, args...)
}

// QueryContext runs a statement that returns rows.
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if stmt := t.store.statements.get(text); stmt != nil {
		return t.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	}
	return t.tx.QueryContext(ctx, text, args...)
}

// QueryRowContext runs a statement that returns at most one row.
func (t *transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if stmt := t.store.statements.get(text); stmt != nil {
		return t.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	}
	return t.tx.QueryRowContext(ctx, text, args...)
}

// affected runs a statement and returns how many rows it changed.
func (t *transaction) affected(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := t.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Update runs fn in one transaction.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	return s.writing(ctx, "update", func(t *transaction) error { return fn(t) })
}

// Emit appends events to the outbox.
func (t *transaction) Emit(ctx context.Context, events ...timer.DueTimeReached) error {
	return outbox.Append(ctx, t, insert, events...)
}

// insert returns the statement that adds n events to the outbox.
func insert(n int) string {
	switch n {
	case 1:
		return sqlAppend
	case chunk:
		return sqlAppendChunk
	}
	return repeatValues(sqlAppend, n)
}
