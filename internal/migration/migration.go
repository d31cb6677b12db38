// Package migration makes what applies the steps of a schema, the same for every
// store.
package migration

import (
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/timer"
)

// Table is ours alone, so that a host's own goose does not collide.
const Table = "timer_schema"

// TableBefore is that of databases from before release 0.1.0.
const TableBefore = "timer_schema_version"

// ErrBefore says that a database is from before release 0.1.0. No step leads from there.
var ErrBefore = fmt.Errorf("%w: the database is from before release 0.1.0: write what it holds into a file with the program that made it (timer-service export), and import that into a new database (timer-service import)",
	timer.ErrFatal)

// NewProvider returns what applies the steps that a database lacks.
func NewProvider(dialect goose.Dialect, db *sql.DB, steps fs.FS) (*goose.Provider, error) {
	provider, err := provide(dialect, db, steps)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}
