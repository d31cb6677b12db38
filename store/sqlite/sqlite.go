// Package sqlite keeps timers and the outbox in one SQLite file, through
// modernc.org/sqlite. [Open] is for a service that owns the file, [New] for a
// host that opened it itself, [OpenReader] for reading while a service runs.
//
// # Durability
//
// The journal is a write-ahead log. With [Strict] every commit is synced to disk
// before it returns (synchronous=FULL): it survives a loss of
// power. With [Relaxed] it survives a crash of the process only.
//
// # Writers and readers
//
// One transaction writes at a time; others queue for it in the order they came,
// as long as their context lasts. Reads use connections of their own and never
// wait for a writer.
//
// A transaction begins with a statement that takes SQLite's write lock, so that a program
// that has the file open too is waited for at the begin, and never at the commit. Before
// the commit it writes the counts of the tenants that it changed, and looks whether the file
// is still the one that was opened.
//
// # Safety
//
// One process at a time runs on the file: a [Lock] keeps others away, and names the owner. [Open]
// takes it, and with [New] the app that runs. If the file is unlinked or replaced while it is
// open, or another process has the lock, every write fails with [timer.ErrFatal], since its
// commit could be lost.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	_ "modernc.org/sqlite" // the driver
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// This file has the store and its transactions. The statements are in the folder query, and
// statements.go lists them. Commands are applied in schedule.go, timers become Reached in
// reach.go, and table.go is the outbox. What operators ask is in reader.go and operator.go, and inbox.go is the inbox.
// The other files are about the file itself: who may have it, its schema, its copies.

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
	Durability Durability      // of a file that Open opens; default Strict
	Events     envelope.Format // how events are written into the outbox; default envelopes
	Version    string          // of the program, for [Store.Nodes]; default none
	Log        *slog.Logger    // where a new file is logged, and once the unsafe properties of a handle of the caller; default none
}

// A Store is a [timer.Store] and outbox.Table on one SQLite
// database, and the [Reader] of it. All methods are safe for concurrent use.
type Store struct {
	*Reader
	store.Changer
	commands
	db   *sql.DB // the handle that writes
	opt  Options
	node timer.Node           // this instance
	host bool                 // the handle is a host's
	turn chan struct{}        // holds one token: its owner may write
	lock atomic.Pointer[Lock] // nil unless this store has it

	mu    sync.Mutex
	known *readiness // nil before the first use

	commits atomic.Int64              // that this process has made
	writes  atomic.Pointer[time.Time] // since when a transaction of this process has the write lock; nil while none has

	referenced atomic.Bool // a service call was missing, see [ReferenceServiceCalls]

	numberWrites atomic.Int64 // how often this process has written numbers, as the file counts it; 0: never

	inbox *inbox

	lastTenant string // the tenant at which the last walk ended, see walk; only the owner of the turn uses it
}

// Open opens or creates the file, takes its lock, migrates it, and returns a
// store that owns it: call [Store.Close]. The error wraps [timer.ErrFatal] if the
// file is corrupt or its schema newer than this binary; it names the owner if
// another process has the lock.
func Open(ctx context.Context, path string, opt Options) (_ *Store, err error) {
	if path, err = create(path, opt.Log); err != nil {
		return nil, err
	}
	lock, err := takeLock(path, cmp.Or(opt.Log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	db := connect(dsn(path, "rw", append(writerPragmas(opt.Durability), writerCache, writerCheckpoint)), writers)
	s := newStore(db, opt)
	s.lock.Store(lock)
	s.reads = connect(dsn(path, "rw", readerPragmas), readers)
	defer func() {
		if err != nil {
			err = errors.Join(Explain(path, fmt.Errorf("open %s: %w", path, err)), s.Close())
		}
	}()
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
// nothing and touches nothing. The handle needs two connections or more, otherwise
// reads wait for writers.
func New(db *sql.DB, opt Options) *Store {
	s := newStore(db, opt)
	s.host = true
	return s
}

func newStore(db *sql.DB, opt Options) *Store {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	s := &Store{Reader: newReader(db), db: db, opt: opt, node: store.NewNode(opt.Version), turn: make(chan struct{}, 1)}
	s.within, s.together = s.writing, func(_ context.Context, _ string, steps func() error) error { return steps() }
	s.Changer = store.Changer{SQL: changes, Change: s.change, Write: s.write, Together: s.runTogether, Rows: s.rows}
	s.inbox = newInbox(s)
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
	db := connect(dsn(path, "rw", readerPragmas), readers)
	if err := Verify(ctx, db); err != nil {
		return nil, errors.Join(Explain(path, fmt.Errorf("open %s: %w", path, err)), db.Close())
	}
	return newReader(db), nil
}

// connect returns a handle, which opens the file when it is first used.
func connect(dsn string, limit int) *sql.DB {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		panic(err) // the driver is not part of the program
	}
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	return db
}

// Close waits for the transaction at work, closes the handles of Open, and unlocks the file. A
// store made by [New] leaves its handle open. It must not be used afterwards.
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
	if !s.host {
		err = errors.Join(err, s.reads.Close(), s.db.Close())
	}
	if lock := s.lock.Load(); lock != nil {
		err = errors.Join(err, lock.Unlock())
	}
	return err
}

// DB returns the handle that writes: for [ReferenceServiceCalls], and for tests.
func (s *Store) DB() *sql.DB { return s.db }

// Timers returns s.
func (s *Store) Timers() timer.Reader { return s }

// Operator returns s.
func (s *Store) Operator() timer.Operator { return s }

// Recovery returns s.
func (s *Store) Recovery() timer.Recoverer { return s }

// Inbox returns the inbox.
func (s *Store) Inbox() timer.Inbox { return s.inbox }

var _ interface {
	timer.Store
	timer.Reader
	timer.Operator
	timer.Recoverer
	outbox.Table
} = (*Store)(nil)

// A transaction writes to the database while this process has the turn. It uses prepared
// statements where there are any.
type transaction struct {
	store *Store
	tx    *sql.Tx
	known map[string]*sql.Stmt // prepared statements of the database, by text; may be nil
	used  map[string]*sql.Stmt // the same statements in tx, by text; nil for a text that is not prepared

	counts map[timer.TenantID]*count
}

// writing waits for the turn and runs fn in a transaction. It commits if fn returns nil, and
// only into the file that was opened.
//
// Statements get a context without an end: each is short, and a context that can end costs a
// goroutine a statement. The end of ctx is looked for between statements.
func (s *Store) writing(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	return classify(doing, s.transact(ctx, fn))
}

// counting is writing for a function that returns how many rows it changed.
func (s *Store) counting(ctx context.Context, doing string, fn func(context.Context, *transaction) (int64, error)) (int, error) {
	var changed int64
	err := s.writing(ctx, doing, func(ctx context.Context, t *transaction) (err error) {
		changed, err = fn(ctx, t)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(changed), nil
}

// change is counting of one statement.
func (s *Store) change(ctx context.Context, doing, text string, args ...any) (int, error) {
	return s.counting(ctx, doing, func(ctx context.Context, t *transaction) (int64, error) {
		return t.change(ctx, text, arguments(args)...)
	})
}

// arguments returns arguments in the forms of this database: times are Unix milliseconds,
// and lists are JSON. It may change the slice.
func arguments(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case time.Time:
			args[i] = nil
			if !arg.IsZero() {
				args[i] = arg.UnixMilli()
			}
		case []int64:
			args[i] = store.JSON(arg)
		case []string:
			args[i] = store.JSON(arg)
		}
	}
	return args
}

// transact does the work of [Store.writing]. Its errors do not name the operation.
func (s *Store) transact(ctx context.Context, fn func(context.Context, *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ready, err := s.ready(ctx)
	if err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx) // of a host's handle; may wait for the host
	if err != nil {
		return err
	}
	defer conn.Close()
	endless := context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(endless, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	t := s.in(tx)
	t.known = ready.statements
	if _, err := t.ExecContext(endless, sqlLock); err != nil {
		return err
	}
	s.writes.Store(new(time.Now())) //nolint:forbidigo // for Check, not for timers
	defer s.writes.Store(nil)
	if err := fn(endless, t); err != nil {
		return err
	}
	if err := t.writeCounts(endless); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.intact(ready); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.commits.Add(1)
	return nil
}

// in returns a transaction on one that was begun, here or by a host, without prepared
// statements.
func (s *Store) in(tx *sql.Tx) *transaction {
	return &transaction{store: s, tx: tx, used: make(map[string]*sql.Stmt, 4), counts: make(map[timer.TenantID]*count)}
}

// stmt returns a statement that is prepared already, or nil.
func (t *transaction) stmt(ctx context.Context, text string) *sql.Stmt {
	stmt, ok := t.used[text]
	if !ok {
		if stmt = t.known[text]; stmt != nil {
			stmt = t.tx.StmtContext(ctx, stmt)
		}
		t.used[text] = stmt
	}
	return stmt
}

// ExecContext runs a statement.
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if stmt := t.stmt(ctx, text); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return t.tx.ExecContext(ctx, text, args...)
}

// QueryContext runs a statement that returns rows.
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if stmt := t.stmt(ctx, text); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return t.tx.QueryContext(ctx, text, args...)
}

// change runs a statement and returns how many rows it changed. It counts events that leave the
// outbox.
func (t *transaction) change(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := t.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	changed, err := result.RowsAffected()
	if deletesEvents[text] {
		t.count(outboxCount).outbox -= changed
	}
	return changed, err
}

// insert adds rows and returns how many it changed.
func (t *transaction) insert(ctx context.Context, i insertion, rows []any) (changed int64, err error) {
	for n, atOnce := range rowsAtOnce {
		for values := atOnce * i.columns; len(rows) >= values; rows = rows[values:] {
			more, err := t.change(ctx, i.texts[n], rows[:values]...)
			if changed += more; err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// An appender adds the rows of a statement of insert to the outbox.
type appender struct{ *transaction }

// ExecContext adds the rows.
func (a appender) ExecContext(ctx context.Context, _ string, rows ...any) (sql.Result, error) {
	n, err := a.insert(ctx, appends, rows)
	return driver.RowsAffected(n), err
}

// Update runs fn in one transaction.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	err := s.writing(ctx, "update", func(_ context.Context, t *transaction) error { return fn(t) })
	failpoint.Here("reached")
	return err
}

// Emit appends events to the outbox.
func (t *transaction) Emit(ctx context.Context, events ...timer.DueTimeReached) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := outbox.Append(context.WithoutCancel(ctx), appender{t}, sqlAppend, t.store.opt.Events, events...)
	t.count(outboxCount).outbox += int64(len(events))
	failpoint.Here("emitted")
	return err
}

// EmitReceipts appends receipts to the outbox.
func (t *transaction) EmitReceipts(ctx context.Context, receipts ...timer.Receipt) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := outbox.AppendReceipts(context.WithoutCancel(ctx), appender{t}, sqlAppend, t.store.opt.Events, receipts...)
	t.count(outboxCount).outbox += int64(len(receipts))
	return err
}

// classify adds the operation to an error, and wraps [timer.ErrFatal] if the file can
// no longer be trusted. All other errors of a database may pass.
func classify(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, timer.ErrFatal), errors.Is(err, timer.ErrInvalid):
		return err
	}
	switch code := codeOf(err); {
	case code&0xff == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s: see that db_path is right; if it is, %s: %w", timer.ErrFatal, doing, wayOut, err)
	case code&0xff == sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %s: %s: %w", timer.ErrFatal, doing, wayOut, err)
	case code == sqlite3.SQLITE_READONLY_DBMOVED:
		return fmt.Errorf("%w: %s: %w", timer.ErrFatal, doing, err)
	case code&0xff == sqlite3.SQLITE_BUSY:
		return fmt.Errorf("%s: another transaction has the write lock of the database, such as one that the caller has open: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Explain returns err, unless the system does not permit SQLite to open or write the file at
// the path: then it returns an error that names the file and the permission.
func Explain(path string, err error) error {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		if why := access(path); why != nil {
			return why
		}
	}
	return err
}

// isConstraint reports whether a constraint or a trigger of the database refused a
// statement.
func isConstraint(err error) bool { return codeOf(err)&0xff == sqlite3.SQLITE_CONSTRAINT }

// isMissing reports whether a foreign key refused a row, because the row that it refers to
// does not exist.
func isMissing(err error) bool { return codeOf(err) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY }

// codeOf returns SQLite's extended result code, or 0.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
