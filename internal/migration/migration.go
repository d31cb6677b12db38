// Package migration applies the steps of a schema, in the same way for every store.
package migration

import (
	"fmt"
	"io/fs"

	"github.com/event-service-agent/timer-service/timer"
)

// Table is the table of versions. Its name is ours alone, since a host may use goose, too.
const Table = "timer_schema"

// TableBefore is that of databases from before release 0.1.0.
const TableBefore = "timer_schema_version"

// TableOfTimers is the table of the first step that says whether there are timers.
const TableOfTimers = "timer_schedules"

// ErrBefore says that a database is from before release 0.1.0. No step leads from there.
var ErrBefore = fmt.Errorf("%w: the database is from before release 0.1.0: write its timers into a file with the program that made it (timer-service export), and import that into a new database (timer-service import)",
	timer.ErrFatal)

// ErrUnversioned says that there are tables of timers without the table of versions, as a host's
// goose leaves them that was not given the name of that table.
var ErrUnversioned = fmt.Errorf("%w: tables of timers are there, but the table of their version, %s, is not: "+
	"run the steps with goose.WithTableName(%q), on a database that has none of these tables", timer.ErrFatal, Table, Table)

// Files returns the steps in the folder migrations.
func Files(embedded fs.FS) fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name of a folder is wrong
	}
	return files
}

// Newest returns the number of the last step in the folder migrations, whose files are
// numbered from 1 without gaps.
func Newest(embedded fs.FS) int64 {
	steps, err := fs.ReadDir(embedded, "migrations")
	if err != nil {
		panic(err) // the name of a folder is wrong
	}
	return int64(len(steps))
}

// Verify returns nil if a schema has the version that this binary knows. If it is newer the
// error wraps [timer.ErrFatal]; if it is older the error says how to migrate, also with a
// function of that name.
func Verify(version, known int64, function string) error {
	switch {
	case version > known:
		return Newer(version, known)
	case version < known:
		return fmt.Errorf("the schema of the database has version %d, this binary needs %d: run timer-service migrate, or %s", version, known, function)
	}
	return nil
}

// Newer returns the error for a schema that is newer than this binary.
func Newer(version, known int64) error {
	return fmt.Errorf("%w: the schema of the database has version %d, this binary knows %d: use a newer binary", timer.ErrFatal, version, known)
}
