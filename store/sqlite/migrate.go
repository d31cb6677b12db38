package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/timer"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed optional/service_calls.sql
var serviceCalls string

// versionTable is ours alone, so that a host's own goose does not collide.
const versionTable = "timer_schema_version"

// SchemaVersion is the version of the schema that this binary works with.
const SchemaVersion = 1

// Migrate brings the schema of a database to [SchemaVersion], each step in a
// transaction. It changes nothing, and returns an error that wraps
// [timer.ErrFatal], if the schema is newer.
func Migrate(ctx context.Context, db *sql.DB) error {
	_, _, err := MigrateFrom(ctx, db)
	return err
}

// MigrateFrom is [Migrate], and tells the version before and after.
func MigrateFrom(ctx context.Context, db *sql.DB) (from, to int64, err error) {
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, steps,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, 0, fmt.Errorf("read the migrations: %w", err)
	}
	if from, err = provider.GetDBVersion(ctx); err != nil {
		return 0, 0, classify("find the schema version", err)
	}
	if from > SchemaVersion {
		return from, from, newer(from)
	}
	if _, err := provider.Up(ctx); err != nil {
		return from, from, classify("migrate", err)
	}
	return from, SchemaVersion, nil
}

func newer(version int64) error {
	return fmt.Errorf("%w: the schema of the database has version %d, this binary knows %d: use a newer binary",
		timer.ErrFatal, version, SchemaVersion)
}

// Verify returns nil if the schema has [SchemaVersion]. If it is newer the error
// wraps [timer.ErrFatal]; if it is older the error says how to migrate.
func Verify(ctx context.Context, db *sql.DB) error {
	var known int
	var version int64
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = ?`, versionTable).Scan(&known)
	if err == nil && known > 0 {
		err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version)
	}
	switch {
	case err != nil:
		return classify("find the schema version", err)
	case version > SchemaVersion:
		return newer(version)
	case version < SchemaVersion:
		return fmt.Errorf("the schema of the database has version %d, this binary needs %d: run timer-service migrate, or sqlite.Migrate", version, SchemaVersion)
	}
	return nil
}

// ReferenceServiceCalls ties timers to the host's table service_calls: a timer
// needs its service call, and goes when that is deleted. It is optional, and
// does nothing the second time. Run it after [Migrate]. The host's table must
// have tenant_id and service_call_id as its primary key; an error names what is
// missing, or how many timers have no service call.
func ReferenceServiceCalls(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return classify("reference service_calls", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	var referenced, parent, orphans int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM pragma_foreign_key_list('timer_schedules')`).Scan(&referenced); err != nil {
		return classify("reference service_calls", err)
	}
	if referenced > 0 {
		return nil
	}
	if err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM pragma_table_info('service_calls') WHERE name IN ('tenant_id', 'service_call_id') AND pk > 0`,
	).Scan(&parent); err != nil {
		return classify("reference service_calls", err)
	}
	if parent != 2 {
		return fmt.Errorf("reference service_calls: there is no table service_calls with the primary key (tenant_id, service_call_id): create it first")
	}
	if err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM timer_schedules
		 WHERE (tenant_id, service_call_id) NOT IN (SELECT tenant_id, service_call_id FROM service_calls)`,
	).Scan(&orphans); err != nil {
		return classify("reference service_calls", err)
	}
	if orphans > 0 {
		return fmt.Errorf("reference service_calls: %d timers have no service call: delete them, or add their service calls, first", orphans)
	}
	if _, err := tx.ExecContext(ctx, serviceCalls); err != nil {
		return classify("reference service_calls", err)
	}
	return classify("reference service_calls", tx.Commit())
}
