// Package migration makes what applies the steps of a schema, the same for every
// store.
package migration

import (
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Table is ours alone, so that a host's own goose does not collide.
const Table = "timer_schema_version"

// NewProvider returns what applies the steps that a database lacks.
func NewProvider(dialect goose.Dialect, db *sql.DB, steps fs.FS) (*goose.Provider, error) {
	provider, err := provide(dialect, db, steps)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}
