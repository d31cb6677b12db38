package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver

	"github.com/event-service-agent/timer-service/timer"
)

// readers is how many connections read at the same time.
const readers = 4

// Options tune a [Store]. The zero value is ready to use.
type Options struct {
	Durability Durability // of a file that Open opens; default Strict
}

// A Store is a [timer.Store], [timer.Reader], [timer.Purger] and outbox.Table on
// one SQLite database. All methods are safe for concurrent use.
type Store struct {
	write *sql.DB
	read  *sql.DB
	turn  chan struct{} // holds one token: whoever has it may write
	file  *identity
	lock  *flock.Flock // nil unless the store owns the file
	owned []*sql.DB    // what Close closes

	statements statements
	tenants    cursor // where the next round of fair claims begins
}

// Open opens or creates the file, takes its lock, migrates it, and returns a
// store that owns it: call [Store.Close]. The error wraps [timer.ErrFatal] if the
// file is corrupt or its schema newer than this binary; it names the owner if
// another process has the lock.
func Open(ctx context.Context, path string, opt Options) (_ *Store, err error) {
	if err := create(path); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.write, err = s.connect(dsn(path, opt.Durability, true), 1); err != nil {
		return nil, err
	}
	if err := Migrate(ctx, s.write); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if s.read, err = s.connect(dsn(path, opt.Durability, false), readers); err != nil {
		return nil, err
	}
	s.begin()
	return s, nil
}

// New returns a store on a host's database, which the host opened with [DSN],
// migrated with [Migrate] and closes itself. It starts nothing and touches
// nothing.
func New(db *sql.DB, _ Options) *Store {
	s := &Store{write: db, read: db}
	s.begin()
	return s
}

// OpenReader opens an existing file for reading only, also while a service runs
// on it. It neither locks nor migrates: the error says so if the file is absent,
// or of another schema version than this binary's. Only the methods of
// [timer.Reader] and Close work.
func OpenReader(ctx context.Context, path string) (_ *Store, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("no database at %s: has the service run here? (%w)", path, err)
	}
	s := new(Store)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.read, err = s.connect(dsn(path, Strict, false), readers); err != nil {
		return nil, err
	}
	s.write = s.read
	if err := Verify(ctx, s.read); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s.begin()
	return s, nil
}

func (s *Store) begin() {
	s.turn = make(chan struct{}, 1)
	s.turn <- struct{}{}
	s.file = new(identity)
	s.statements.of = make(map[string]*sql.Stmt)
}

func (s *Store) connect(dsn string, limit int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	db.SetConnMaxIdleTime(0)
	s.owned = append(s.owned, db)
	return db, nil
}

// Close closes what Open opened, and lets go of the lock. On a store made by
// [New] it only closes its prepared statements.
func (s *Store) Close() error {
	err := s.statements.close()
	for _, db := range s.owned {
		err = errors.Join(err, db.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
	}
	return err
}

// DB returns the handle that writes: for [ReferenceServiceCalls], and for tests.
func (s *Store) DB() *sql.DB { return s.write }

// create makes an empty file that only its owner reads, unless it is there.
// SQLite gives its log and shared memory the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return f.Close()
}

// takeLock takes the advisory lock beside the file, and signs it.
func takeLock(path string) (*flock.Flock, error) {
	name := path + ".lock"
	lock := flock.New(name, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !taken {
		owner, _ := os.ReadFile(name) // for the message only
		return nil, fmt.Errorf("the database %s belongs to another process (%s): stop that one, or set another db_path", path, owner)
	}
	host, _ := os.Hostname() // for the message only
	if err := os.WriteFile(name, fmt.Appendf(nil, "pid %d on %s", os.Getpid(), host), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("sign the lock of the database: %w", err), lock.Unlock())
	}
	return lock, nil
}

var _ interface {
	timer.Store
	timer.Reader
	timer.Purger
} = (*Store)(nil)
