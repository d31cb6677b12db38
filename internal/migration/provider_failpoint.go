//go:build failpoint

package migration

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// NewProvider returns a provider that applies the steps that a database lacks, and may die
// in the transaction of each.
func NewProvider(dialect goose.Dialect, db *sql.DB, steps fs.FS) (*goose.Provider, error) {
	store, err := database.NewStore(dialect, Table)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, db, steps,
		goose.WithStore(versions{store}), goose.WithDisableGlobalRegistry(true))
}

// versions are the rows that say which steps were applied.
type versions struct{ database.Store }

// Insert adds the row of a step, in the transaction that has done the rest of
// it.
func (v versions) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	failpoint.Here("migrating")
	return v.Store.Insert(ctx, db, req)
}
