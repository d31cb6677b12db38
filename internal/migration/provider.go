//go:build !failpoint

package migration

import (
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// NewProvider returns a provider that applies the steps that a database lacks.
func NewProvider(dialect goose.Dialect, db *sql.DB, steps fs.FS) (*goose.Provider, error) {
	return goose.NewProvider(dialect, db, steps,
		goose.WithTableName(Table), goose.WithDisableGlobalRegistry(true))
}
