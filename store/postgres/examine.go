package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	sqlRegisteredBefore = query("registered_before")
	sqlDenied           = query("denied")
)

// Version returns the version of the server.
func (r *Reader) Version(ctx context.Context) (string, error) {
	var number int64
	var version, synchronous, fsync string
	err := r.rows(ctx, "find the version of the database", sqlServer, nil, scan(&number, &version, &synchronous, &fsync))
	return "PostgreSQL " + version, err
}

// RegisteredBefore returns how many timers wait whose command is older than a time, by
// its producer's clock, at most a limit. It takes longer the more timers wait: give it a deadline.
func (r *Reader) RegisteredBefore(ctx context.Context, before time.Time, limit int) (n int64, err error) {
	err = r.rows(ctx, "count timers by their age", sqlRegisteredBefore, []any{before.UnixMilli(), int64(limit)}, scan(&n))
	return n, err
}

// Denied returns the names of tables that the role may not read or change, and has to.
func (r *Reader) Denied(ctx context.Context) (tables []string, err error) {
	err = r.rows(ctx, "find what the role may do", sqlDenied, nil, func(rows pgx.Rows) error {
		var table string
		err := rows.Scan(&table)
		tables = append(tables, table)
		return err
	})
	return tables, err
}
