package crash

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database of the service
)

// A Store is a kind of database of the service.
type Store string

// Stores.
const (
	SQLite   Store = "sqlite"   // a file in the directory of the run
	Postgres Store = "postgres" // a PostgreSQL server of the run
)

// Stores are all stores.
var Stores = []Store{SQLite, Postgres}

// A database is the database of the service, as far as the test has to
// do with it. The verdict never depends on its content.
type database interface {
	// environ names it to the service.
	environ() []string

	// age makes the timers of a tenant older, and returns how many there are. The
	// service is dead meanwhile.
	age(ctx context.Context, tenant string, by time.Duration) (timers int64, err error)

	// interrupt takes it away, which ends the transactions of the service, and gives
	// it back. It has a server, otherwise this is not called.
	interrupt(ctx context.Context, r *run) error

	// close removes everything outside the directory of the run.
	close() error
}

// databasePath is where the database is if it is a file. The secret of a broker within the
// service is next to it.
func (r *run) databasePath() string {
	dir := r.dir
	if r.opt.Disk != nil {
		dir = r.opt.Disk.Dir()
	}
	return filepath.Join(dir, "timers.db")
}

// openDatabase makes the database that the options ask for.
func (r *run) openDatabase(ctx context.Context) (database, error) {
	if r.opt.Store == Postgres {
		d, err := openPostgres(ctx, r.opt, r.dir)
		if err != nil || !r.opt.Mode.failsOver() {
			return d, err
		}
		r.replicated, err = replicate(ctx, d, r.opt.Mode == Failover)
		return r.replicated, err
	}
	r.file = &sqliteFile{path: r.databasePath()}
	return r.file, nil
}

// sqliteFile is a SQLite database.
type sqliteFile struct {
	path   string
	copies []string // paths, the oldest first
	made   int
}

func (f *sqliteFile) environ() []string { return []string{"TIMER_DB_PATH=" + f.path} }

func (f *sqliteFile) age(ctx context.Context, tenant string, by time.Duration) (timers int64, err error) {
	db, err := sql.Open("sqlite", f.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	result, err := db.ExecContext(ctx, `
UPDATE timer_schedules
   SET registered_at = registered_at - ?1, due_at = due_at - ?1,
       reached_at = reached_at - ?1, canceled_at = canceled_at - ?1
 WHERE tenant_id = ?2`, by.Milliseconds(), tenant)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (f *sqliteFile) interrupt(context.Context, *run) error {
	return errors.New("a file has no server that could go away")
}

func (f *sqliteFile) close() error { return nil }
