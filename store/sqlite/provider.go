//go:build !failpoint

package sqlite

import (
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// newProvider returns what applies the steps that a database lacks.
func newProvider(db *sql.DB, steps fs.FS) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectSQLite3, db, steps,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
}
