package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/migration"
	"github.com/event-service-agent/timer-service/timer"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaVersion is the version of the schema that this binary works with.
const SchemaVersion = 4

// Migrate brings the schema of a database to [SchemaVersion], each step in a
// transaction. It changes nothing, and returns an error that wraps
// [timer.ErrFatal], if the schema is newer. Several processes may migrate at the
// same time: all but one wait. The handle needs two connections.
func Migrate(ctx context.Context, db *sql.DB) error {
	_, _, err := MigrateFrom(ctx, db)
	return err
}

// MigrateFrom is [Migrate], and tells the version before and after.
func MigrateFrom(ctx context.Context, db *sql.DB) (from, to int64, err error) {
	from, err = version(ctx, db)
	switch {
	case err != nil:
		return 0, 0, classify("find the schema version", err)
	case from == SchemaVersion:
		return from, from, nil
	case from > SchemaVersion:
		return from, from, newer(from)
	}
	if db.Stats().MaxOpenConnections == 1 {
		return from, from, errors.New("migrate: the handle has one connection, and two are needed: one holds the lock")
	}
	if err := locked(ctx, db, func() error { return up(ctx, db) }); err != nil {
		return from, from, classify("migrate", err)
	}
	failpoint.Here("migrated")
	return from, SchemaVersion, nil
}

// locked runs fn while a transaction holds the lock for migrations, which the
// server lets go of when the transaction ends, or its connection. A session's
// lock would not do: behind PgBouncer a session has no connection of its own.
func locked(ctx context.Context, db *sql.DB, fn func() error) error {
	return withConn(ctx, db, func(ctx context.Context, c *pgx.Conn) error {
		defer rollBack(ctx, c)
		if err := send(ctx, c, step{text: beginWriting}, step{text: sqlTimeouts}, step{text: sqlLock, args: []any{int32(lockMigrate)}}); err != nil {
			return err
		}
		return fn()
	})
}

// up applies what is missing.
func up(ctx context.Context, db *sql.DB) error {
	provider, err := migration.NewProvider(goose.DialectPostgres, db, migrations)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// version returns that of the schema, 0 if there is none.
func version(ctx context.Context, db *sql.DB) (v int64, err error) {
	var exists bool
	if err := readTx(ctx, db, step{text: sqlExists, args: []any{migration.Table}, each: scan(&exists)}); err != nil || !exists {
		return 0, err
	}
	err = readTx(ctx, db, step{text: sqlVersion, each: scan(&v)})
	return v, err
}

func newer(version int64) error {
	return fmt.Errorf("%w: the schema of the database has version %d, this binary knows %d: use a newer binary",
		timer.ErrFatal, version, SchemaVersion)
}

// Verify returns nil if the schema has [SchemaVersion]. If it is newer the error
// wraps [timer.ErrFatal]; if it is older the error says how to migrate.
func Verify(ctx context.Context, db *sql.DB) error {
	switch v, err := version(ctx, db); {
	case err != nil:
		return classify("find the schema version", err)
	case v > SchemaVersion:
		return newer(v)
	case v < SchemaVersion:
		return fmt.Errorf("the schema of the database has version %d, this binary needs %d: run timer-service migrate, or postgres.Migrate", v, SchemaVersion)
	}
	return nil
}
