package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/migration"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaVersion is the version of the schema that this binary works with: the number of the
// last migration.
var SchemaVersion = migration.Newest(migrations)

// VersionTable is the table that says which migrations were applied.
const VersionTable = migration.Table

// Migrations returns the migrations, one numbered file each, for a host that applies
// them with a goose of its own, before the first use, instead of [Migrate]. Its table of
// versions must be [VersionTable]: [Verify] reads that.
//
//	goose.NewProvider(goose.DialectSQLite3, db, sqlite.Migrations(),
//		goose.WithTableName(sqlite.VersionTable), goose.WithDisableGlobalRegistry(true))
func Migrations() fs.FS {
	return migration.Files(migrations)
}

// Migrate brings the schema of a database to [SchemaVersion], each step in a
// transaction. It changes nothing, and returns an error that wraps
// [timer.ErrFatal], if the handle is not of modernc's driver, the database in memory, or the schema newer. Several processes may migrate at the
// same time.
func Migrate(ctx context.Context, db *sql.DB) error {
	_, _, err := MigrateFrom(ctx, db)
	return err
}

// MigrateFrom is [Migrate], and returns the version before and after.
func MigrateFrom(ctx context.Context, db *sql.DB) (from, to int64, err error) {
	provider, err := migration.NewProvider(goose.DialectSQLite3, db, Migrations())
	if err != nil {
		return 0, 0, err
	}
	if from, err = versionOf(ctx, db); err != nil {
		return 0, 0, classify("find the schema version", err)
	}
	if from > SchemaVersion {
		return from, from, migration.Newer(from, SchemaVersion)
	}
	if err := up(ctx, provider); err != nil {
		return from, from, classify("migrate", err)
	}
	failpoint.Here("migrated")
	return from, SchemaVersion, nil
}

// up applies the steps that the database lacks. If another process applies them at the same
// time, a step may fail because its tables exist already. Then up tries again, beginning
// with the version that the database has by then.
func up(ctx context.Context, provider *goose.Provider) (err error) {
	for range busyTries {
		if _, err = provider.Up(ctx); err == nil || !pause.For(ctx, busyPause) {
			break
		}
	}
	return err
}

// version returns that of the schema, 0 if there is none.
//
// It is the first use of a connection, which turns the write-ahead log on unless
// it is. Where others do that at the same time, SQLite does not wait for them
// as it does for any other lock.
func version(ctx context.Context, db *sql.DB) (v int64, err error) {
	for range busyTries {
		if v, err = lookForVersion(ctx, db); codeOf(err)&0xff != sqlite3.SQLITE_BUSY || !pause.For(ctx, busyPause) {
			return v, err
		}
	}
	return v, err
}

const (
	busyTries = 100
	busyPause = 20 * time.Millisecond
)

func lookForVersion(ctx context.Context, db *sql.DB) (v int64, err error) {
	var before, timers bool
	err = db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = ?), count(*) FILTER (WHERE name = ?), count(*) FILTER (WHERE name = ?) FROM sqlite_schema`,
		migration.Table, migration.TableBefore, migration.TableOfTimers).Scan(&v, &before, &timers)
	switch {
	case err != nil:
		return 0, err
	case before:
		return 0, migration.ErrBefore
	case v == 0 && timers:
		return 0, migration.ErrUnversioned
	case v == 0:
		return 0, nil
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+migration.Table).Scan(&v)
	return v, err
}

// versions is the table of goose for the version of the schema.
const versions = `CREATE TABLE ` + migration.Table + ` (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TIMESTAMP DEFAULT (datetime('now'))
)`

// MigrationSQL returns the statements that [Migrate] runs on a schema of a version; 0
// is none.
func MigrationSQL(from int64) (string, error) { return migration.Script(Migrations(), versions, from) }

// VersionOf returns the version of the schema in a database file, 0 if there is none
// or no file. It changes nothing.
func VersionOf(ctx context.Context, path string) (v int64, err error) {
	if err := present(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	db := connect(dsn(path, "rw", readerPragmas), readers)
	defer func() { err = errors.Join(err, db.Close()) }()
	v, err = version(ctx, db)
	return v, classify("find the schema version", err)
}

// versionOf returns the version of the schema on a handle, which may be a host's. The error
// says so if timers can't be there: it is of another driver, or the database has no file.
func versionOf(ctx context.Context, db *sql.DB) (v int64, err error) {
	if v, err = version(ctx, db); err != nil {
		return 0, err
	}
	if _, ours := db.Driver().(*sqlite.Driver); !ours {
		// One around modernc's, which traces for example, passes its errors on.
		if _, err := db.ExecContext(ctx, "SELECT no_such_column"); codeOf(err) == 0 {
			return 0, cmp.Or(ctx.Err(), fmt.Errorf("%w: the handle's driver is %T: open it with modernc's, sql.Open(%q, sqlite.DSN(path))", timer.ErrFatal, db.Driver(), "sqlite"))
		}
	}
	var path string
	if err = db.QueryRowContext(ctx, sqlFile).Scan(&path); err == nil && path == "" {
		err = fmt.Errorf("%w: the database has no file, so that it ends with the process: give it one", timer.ErrFatal)
	}
	return v, err
}

// Verify returns nil if timers can be on a handle, and the schema has [SchemaVersion]. If
// the handle is of another driver, the database in memory, or the schema newer, the error
// wraps [timer.ErrFatal]; if it is older the error says how to migrate.
func Verify(ctx context.Context, db *sql.DB) error {
	v, err := versionOf(ctx, db)
	if err != nil {
		return classify("find the schema version", err)
	}
	return migration.Verify(v, SchemaVersion, "sqlite.Migrate")
}

// reference adds the foreign key to the text of the table, and gives the schema another version,
// so that all connections read it again.
const reference = `
	PRAGMA writable_schema = on;
	UPDATE sqlite_schema
	   SET sql = replace(sql, char(10) || ') STRICT', ',
    FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls (tenant_id, service_call_id) ON DELETE CASCADE
) STRICT')
	 WHERE type = 'table' AND name = 'timer_schedules';
	PRAGMA schema_version = %d`

// ReferenceServiceCalls ties timers to the table service_calls of the host program: a timer
// needs its service call, and goes when that is deleted. It is optional, and
// does nothing the second time. Run it after [Migrate]. The table must
// have the primary key (tenant_id, service_call_id), or a unique one; an error
// names the missing table or key, or says how many timers have no service call.
//
// SQLite has no statement that adds a foreign key. The key changes no row, so it is written
// into the schema, by the simpler procedure of https://www.sqlite.org/lang_altertable.html,
// section 7.
func ReferenceServiceCalls(ctx context.Context, db *sql.DB) error {
	err := Verify(ctx, db)
	if err == nil {
		err = refer(ctx, db)
	}
	return classify("reference service_calls", err)
}

// refer adds the foreign key to the table, unless it has it.
func refer(ctx context.Context, db *sql.DB) error {
	ctx = context.WithoutCancel(ctx) // an end in between would leave the schema writable on the connection
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, sqlLock); err != nil {
		return err
	}
	var enforced, added bool
	var referenced, parents, schema, unreferenced int
	if err := tx.QueryRowContext(ctx, `
		SELECT (SELECT foreign_keys FROM pragma_foreign_keys),
		       (SELECT count(*) FROM pragma_foreign_key_list('timer_schedules')),
		       (SELECT count(*) FROM pragma_table_info('service_calls') WHERE name IN ('tenant_id', 'service_call_id')),
		       (SELECT schema_version FROM pragma_schema_version)`,
	).Scan(&enforced, &referenced, &parents, &schema); err != nil {
		return err
	}
	switch {
	case !enforced:
		return errors.New("the handle does not enforce foreign keys: open it with sqlite.DSN")
	case referenced > 0:
		return nil
	case parents != 2:
		return errors.New("there is no table service_calls with the columns tenant_id and service_call_id: create it first")
	}
	if err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM timer_schedules
		 WHERE NOT EXISTS (
		       SELECT 1 FROM service_calls p
		        WHERE p.tenant_id = timer_schedules.tenant_id AND p.service_call_id = timer_schedules.service_call_id)`,
	).Scan(&unreferenced); err != nil {
		return err
	}
	if unreferenced > 0 {
		return fmt.Errorf("%d timers have no service call: add their service calls, or delete them, first", unreferenced)
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(reference, schema+1))
	_, reset := tx.ExecContext(ctx, `PRAGMA writable_schema = reset`) // also after an error, since the connection goes back to the host
	if err := errors.Join(err, reset); err != nil {
		return err
	}
	// It fails if the columns are no key of service_calls.
	if _, err := tx.ExecContext(ctx, `PRAGMA foreign_key_check(timer_schedules)`); err != nil {
		return fmt.Errorf("service_calls needs the primary key (tenant_id, service_call_id), or a unique one: %w", err)
	}
	if err := tx.QueryRowContext(ctx, sqlReferenced).Scan(&added); err != nil {
		return err
	}
	if !added {
		return errors.New("the text of timer_schedules in the schema is not as this version made it, so the key can't be added")
	}
	return tx.Commit()
}
