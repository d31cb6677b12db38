package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/timer"
)

var (
	sqlRegisteredBefore = query("registered_before")
	sqlDenied           = query("denied")
	sqlChecksums        = query("checksums")
)

// Version returns the version of the server.
func (r *Reader) Version(ctx context.Context) (string, error) {
	var number int64
	var version, synchronous, fsync string
	err := r.rows(ctx, "find the version of the database", sqlServer, nil, scan(&number, &version, &synchronous, &fsync))
	return "PostgreSQL " + version, err
}

// RegisteredBefore counts the waiting timers whose command is older than a time, by its
// producer's clock. It reads only the limit timers that are due first, and may take long:
// give it a deadline.
func (r *Reader) RegisteredBefore(ctx context.Context, before time.Time, limit int) (u timer.Unprotected, err error) {
	var waiting int
	var oldest *int64
	err = r.rows(ctx, "count timers by their age", sqlRegisteredBefore, []any{before.UnixMilli(), int64(limit)}, scan(&waiting, &u.Timers, &oldest))
	u.Before, u.More = before.UTC(), waiting == limit
	if oldest != nil {
		u.Oldest = time.UnixMilli(*oldest).UTC()
	}
	return u, err
}

// Denied returns the names of the tables that the role may not read or change although it
// needs to.
func (r *Reader) Denied(ctx context.Context) (tables []string, err error) {
	err = r.rows(ctx, "find what the role may do", sqlDenied, nil, func(rows pgx.Rows) error {
		var table string
		err := rows.Scan(&table)
		tables = append(tables, table)
		return err
	})
	return tables, err
}

// Checksums reports whether the server notices pages that its disk has changed
// (data_checksums). Without checksums damage may stay unnoticed.
func (r *Reader) Checksums(ctx context.Context) (on bool, err error) {
	err = r.rows(ctx, "find whether the server has checksums", sqlChecksums, nil, scan(&on))
	return on, err
}

// Running returns how many instances run on the database, counted by the shards that they
// own. An instance that has just started, or that is suspended, is not counted.
func (r *Reader) Running(ctx context.Context) (n int, err error) {
	err = r.rows(ctx, "count instances", sqlInstances, nil, scan(&n))
	return n, err
}
