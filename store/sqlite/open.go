package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	readers = 4 // connections that read at the same time

	// Only one of them writes at a time: the owner of the turn.
	writers = 2

	// Of the connection that writes: pages it keeps in memory, and pages the log
	// may hold before they are copied into the file.
	writerCache      = "cache_size(-16384)" // KiB
	writerCheckpoint = "wal_autocheckpoint(4000)"
)

// Options tune a [Store]. The zero value is ready to use.
type Options struct {
	Durability  Durability      // of a file that Open opens; default Strict
	BusyTimeout time.Duration   // how long Open's connections wait for another process's lock; default 5s
	Events      envelope.Format // how events are written into the outbox; default envelopes
	Version     string          // of the program, for [Store.Nodes]; default none
	Log         *slog.Logger    // where a new file is logged, and once what is unsafe about a host's handle; default none
}

// A Store is a [timer.Store] and outbox.Table on one SQLite
// database, and the [Reader] of it. All methods are safe for concurrent use.
type Store struct {
	*Reader
	commands
	db   *sql.DB // the handle that writes
	opt  Options
	node timer.Node    // this instance
	host bool          // the handle is a host's
	turn chan struct{} // holds one token: its owner may write
	lock *flock.Flock  // nil unless the store owns the file

	mu    sync.Mutex
	known *readiness // nil before the first use

	commits atomic.Int64 // that this process has made

	positions store.Positions

	lastTenant string // where the last round of fair claims ended; of the owner of the turn
}

// Open opens or creates the file, takes its lock, migrates it, and returns a
// store that owns it: call [Store.Close]. The error wraps [timer.ErrFatal] if the
// file is corrupt or its schema newer than this binary; it names the owner if
// another process has the lock.
func Open(ctx context.Context, path string, opt Options) (_ *Store, err error) {
	if path, err = create(path, opt.Log); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	db, err := connect(dsn(path, "rw", append(writerPragmas(opt), writerCache, writerCheckpoint)), writers)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s := newStore(db, opt)
	s.lock = lock.Flock
	defer func() {
		if err != nil {
			lock.forget()
			err = errors.Join(Explain(path, fmt.Errorf("open %s: %w", path, err)), s.Close())
		}
	}()
	if s.reads, err = connect(dsn(path, "rw", readerPragmas(opt)), readers); err != nil {
		return nil, err
	}
	from, _, err := MigrateFrom(ctx, db)
	if err != nil {
		return nil, err
	}
	id, name, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if from == 0 {
		s.opt.Log.InfoContext(ctx, "made a new database", "database", name, "database_id", id)
	}
	return s, nil
}

// New returns a store on a host's database, which the host opened with [DSN],
// migrated with [Migrate] and closes itself, after [Store.Close]. It starts
// nothing and touches nothing. The handle needs two connections or more, else
// reads wait for writers.
func New(db *sql.DB, opt Options) *Store {
	s := newStore(db, opt)
	s.reads, s.host = db, true
	return s
}

func newStore(db *sql.DB, opt Options) *Store {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	s := &Store{Reader: new(Reader), db: db, opt: opt, node: store.NewNode(opt.Version), turn: make(chan struct{}, 1)}
	s.within = s.noting
	s.turn <- struct{}{}
	return s
}

// OpenReader opens an existing file for reading only, also while a service runs
// on it: call [Reader.Close]. It neither locks nor migrates: the error says so if
// the file is absent, or of another schema version than this binary's.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	db, err := connect(dsn(path, "rw", readerPragmas(Options{})), readers)
	if err != nil {
		return nil, err
	}
	if err := Verify(ctx, db); err != nil {
		return nil, errors.Join(Explain(path, fmt.Errorf("open %s: %w", path, err)), db.Close())
	}
	return &Reader{reads: db}, nil
}

func connect(dsn string, limit int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	return db, nil
}

// Close waits for the transaction at work, closes what Open opened, and lets go
// of the lock. A store made by [New] only closes its prepared statements. It
// must not be used afterwards.
func (s *Store) Close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.known != nil {
		err = s.known.close()
		s.known = nil
	}
	if s.host {
		return err
	}
	if s.reads != nil {
		err = errors.Join(err, s.reads.Close())
	}
	return errors.Join(err, s.db.Close(), s.lock.Unlock())
}

// DB returns the handle that writes: for [ReferenceServiceCalls], and for tests.
func (s *Store) DB() *sql.DB { return s.db }

// Create makes an empty file that only its owner reads and writes, unless it is
// there. The error says why if others may read or write it.
func Create(path string) error {
	_, err := create(path, nil)
	return err
}

// create is [Create], and returns the path without links, which all who open it
// have in common. It makes the folder too, but none above it, where a mistake in the path
// would be. SQLite gives its log and shared memory the mode of the file.
func create(path string, log *slog.Logger) (string, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	dir := filepath.Dir(path)
	err := Usable(path)
	if _, absent := os.Stat(dir); err == nil && errors.Is(absent, fs.ErrNotExist) {
		log.Info("make the folder of the database", "folder", dir)
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		_, err = touch(path)
	}
	if err == nil {
		err = present(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		err = Usable(path)
	}
	if err == nil {
		err = guard(path, log)
	}
	if err != nil {
		return "", fmt.Errorf("create the database: %w", err)
	}
	return path, nil
}

// touch makes an empty file that only its owner reads and writes, unless one is there. That
// one is not opened: closing it would end the locks that SQLite has on it in this process,
// and another process would take the database for closed (https://sqlite.org/howtocorrupt.html).
func touch(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if target, err := os.Readlink(path); err == nil { // a link to a file that is absent
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return touch(target)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Stat(path)
}

// Timers returns what reads timers.
func (s *Store) Timers() timer.Reader { return s }

// Operator returns s.
func (s *Store) Operator() timer.Operator { return s }

// Recovery returns s.
func (s *Store) Recovery() timer.Recoverer { return s }

var _ interface {
	timer.Store
	timer.Reader
	timer.Operator
	timer.Recoverer
	outbox.Table
} = (*Store)(nil)
