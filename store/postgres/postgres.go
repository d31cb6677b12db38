// Package postgres keeps timers and the outbox in a PostgreSQL database, version 15 or newer,
// through pgx. Any number of instances may work on the same database. [Open] is for a service
// that has a URL, [New] for a host with a handle of its own, [OpenReader] for reading while
// services run.
//
// # Durability
//
// A commit is as durable as the server makes it. [Strict] refuses a database that has
// synchronous_commit or fsync turned off. With [Relaxed] each transaction turns
// synchronous_commit off for itself: a crash of the server may lose the last commits, a crash
// of this process does not.
//
// # Transactions
//
// All transactions are at READ COMMITTED, whatever the database has as its default, and
// short: they wait for nothing but rows. Schedule and Cancel wait for each other if they have
// the same keys, and lock in an order that leads to no deadlock. Reach and Purge wait for no
// transaction: they skip rows that another transaction is changing. Reads see committed rows
// and never wait.
//
// If a process is stopped in the middle of a transaction, as by SIGSTOP, or while the server
// sends it rows, the server ends its transaction after four seconds. Until then no other
// transaction can change its rows. A statement that waits for a row gives up after six
// seconds, so it outlasts such a process. A process that dies loses its locks at once.
//
// # PgBouncer
//
// Settings hold for one transaction, and locks end with it. Statements are prepared once for
// each connection, unless a pooler such as PgBouncer is found in between: then they have no
// names, and nothing depends on a session. So a PgBouncer in transaction mode may stand there.
// The tests run the whole contract through one.
//
// default_query_exec_mode in the URL says otherwise, see [pgx.QueryExecMode]. In the handle of a
// host, which may lead to a pooler, it is for the host to set.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// This file has the store and its transactions. The statements are in the folder query, and
// statements.go lists them. Commands are applied in apply.go, timers become Reached in
// reach.go, and table.go is the outbox. lease.go shares its shards among instances, and
// watermark.go says from which row on others may still insert. What operators ask is in
// reader.go and operator.go, and inbox.go is the inbox.

// Options tune a [Store]. The zero value is ready to use.
type Options struct {
	Durability Durability      // default Strict, which refuses a server that does not sync
	Events     envelope.Format // how events are written into the outbox; default envelopes
	Version    string          // of the program, for [Store.Nodes]; default none
	Log        *slog.Logger    // default none
}

// A Store is a [timer.Store] on one PostgreSQL database, and has the [Reader] and the
// outbox.Table (shard 0) of it. All methods are safe for concurrent use.
type Store struct {
	*Reader
	store.Changer
	shard
	opt       Options
	node      timer.Node   // this instance
	host      bool         // the handle belongs to a host
	appending atomic.Int32 // number of the shard to which events are appended

	instances atomic.Int64 // how many share the database, when last counted

	referenced atomic.Bool // a service call was missing, see [ReferenceServiceCalls]

	working sync.WaitGroup // calls for which Close waits; others may begin inside of them

	fenced    atomic.Bool // the database is set read-only
	overrides atomic.Bool // sessions of this role begin read-only, which a host may have set

	mu    sync.Mutex
	known bool   // the database was checked
	id    string // of the database, once it is known

	hosted sync.Map // running transactions of Transact: *sql.Tx to sender

	watermark  watermark
	backlogged atomic.Bool  // the last batch was full, and more timers were due
	walked     atomic.Value // a string: the tenant where the last round of fair batches ended

	history  history
	advanced advancedNumbers

	checked atomic.Pointer[time.Time] // when a check began that found nothing wrong

	inbox *inbox
}

// Open connects to the database, migrates it, and returns a store with a handle of its own:
// call [Store.Close]. The error wraps [timer.ErrFatal] if the schema is newer than this
// binary, the server is too old, or, with [Strict], it is set to lose commits. No error
// contains the URL.
func Open(ctx context.Context, url string, opt Options) (_ *Store, err error) {
	db, err := connect(url, connections)
	if err != nil {
		return nil, err
	}
	s := newStore(db, opt)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the database: %w", err), s.Close())
		}
	}()
	if err = s.CheckServer(ctx); err != nil {
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

// New returns a store on a host's database. The host has opened the handle with pgx's
// database/sql driver and migrated with [Migrate], and closes the handle itself, after
// [Store.Close]. New starts nothing and touches nothing. An app keeps up to five connections
// of the handle for itself, and needs three.
func New(db *sql.DB, opt Options) *Store {
	s := newStore(db, opt)
	s.host = true
	return s
}

func newStore(db *sql.DB, opt Options) *Store {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	s := &Store{
		Reader: newReader(db), opt: opt, node: store.NewNode(opt.Version),
		watermark: watermark{began: time.Now()}, //nolint:forbidigo // for the pace, not for timers
	}
	s.shard.store, s.Changer = s, store.Changer{SQL: changes, Change: s.change, Write: s.write, Together: s.runTogether, Rows: s.rows}
	s.inbox = newInbox(s)
	return s
}

// OpenReader connects to the database for reading only, also while services run on it: call
// [Reader.Close]. It does not migrate: if the schema has another version than this binary's,
// the error says so.
func OpenReader(ctx context.Context, url string) (*Reader, error) {
	db, err := connect(url, readers)
	if err != nil {
		return nil, err
	}
	if err := Verify(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), db.Close())
	}
	return newReader(db), nil
}

// Close waits for running transactions and closes the handle that Open opened; the handle of
// a host stays open. The store must not be used afterwards.
func (s *Store) Close() error {
	s.working.Wait()
	if s.host {
		return nil
	}
	return s.db.Close()
}

// DB returns the handle, for [ReferenceServiceCalls] and for tests.
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

// These statements begin and end transactions, whatever isolation the database has as its
// default. Whether they may write the database decides, see mode.
const (
	begin        = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginReading = begin + " READ ONLY"
	commit       = "COMMIT"
	rollback     = "ROLLBACK"
)

// mode returns the access mode that a transaction that writes adds to its isolation level. A default that the
// role or the connection has is overridden; one of the database or the server is not.
func (s *Store) mode() string {
	if s.overrides.Load() {
		return " READ WRITE"
	}
	return ""
}

// reading returns the steps that begin a transaction that only reads.
func reading() []step {
	return []step{{text: beginReading}, {text: sqlSettings, args: []any{false, nil}}}
}

// A transaction is a transaction on the server. It sends statements together: a statement
// whose result is not needed yet goes with the next one, or with the commit.
type transaction struct {
	store   *Store
	send    sendFunc
	waiting []step // not sent yet
}

// A sendFunc sends statements to the server, and stops at the first that fails.
type sendFunc func(context.Context, ...step) error

// writing runs fn in a transaction, which commits if fn returns nil.
func (s *Store) writing(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error {
	return classify(doing, s.transact(ctx, fn))
}

func (s *Store) transact(ctx context.Context, fn func(context.Context, *transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.working.Add(1)
	defer s.working.Done()
	if err := s.ready(ctx); err != nil {
		return err
	}
	started, err := s.verified(ctx)
	if err != nil {
		return err
	}
	return s.restarted(ctx, onConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
		t := &transaction{store: s, send: func(ctx context.Context, steps ...step) error { return send(ctx, c, steps...) }}
		t.later(step{text: begin + s.mode()})
		t.later(step{text: sqlSettings, args: []any{s.opt.Durability == Relaxed, started}})
		defer rollBack(ctx, c) // does nothing after a commit
		if err := fn(ctx, t); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.commit(ctx)
	}))
}

// rollBack ends the transaction of a connection, if there is one, even after its context has
// ended or after a panic.
func rollBack(ctx context.Context, c *pgx.Conn) {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := send(ctx, c, step{text: rollback}); err != nil {
		_ = c.Close(ctx) // rolls back too
	}
}

// later sends a statement with the next one.
func (t *transaction) later(s step) { t.waiting = append(t.waiting, s) }

// now sends the waiting statements and then this one, and waits for the results.
func (t *transaction) now(ctx context.Context, s step) error {
	t.later(s)
	return t.flush(ctx)
}

// flush sends the waiting statements.
func (t *transaction) flush(ctx context.Context) error {
	steps := t.waiting
	t.waiting = nil
	return t.send(ctx, steps...)
}

// commit commits.
func (t *transaction) commit(ctx context.Context) error {
	var tag pgconn.CommandTag
	if err := t.now(ctx, step{text: commit, done: func(got pgconn.CommandTag) { tag = got }}); err != nil {
		return err
	}
	if tag.String() != commit {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// rows runs a statement and calls fn for each row.
func (t *transaction) rows(ctx context.Context, text string, args []any, fn func(store.Scanner) error) error {
	return t.now(ctx, step{text: text, args: args, each: fn})
}

// numbers runs a statement and returns its only column.
func (t *transaction) numbers(ctx context.Context, text string, args ...any) (all []int64, err error) {
	err = t.rows(ctx, text, args, store.Collect(&all, store.ReadNumber))
	return all, err
}

// Update runs fn in one transaction.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	err := s.writing(ctx, "update", func(_ context.Context, t *transaction) error { return fn(t) })
	failpoint.Here("reached")
	return err
}
