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

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

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
	opt   Options
	node  timer.Node   // this instance
	host  bool         // the handle belongs to a host
	shard atomic.Int32 // where events are appended
	owned atomic.Bool  // the store has owned a shard

	instances atomic.Int64 // how many share the database, when last counted

	referenced atomic.Bool // the server has refused a command without a service call

	working working // calls for which Close waits

	mu    sync.Mutex
	known bool   // the database was checked
	id    string // of the database, once it is known

	hosted sync.Map // running transactions of Transact: *sql.Tx to *hosted

	watermark  watermark
	backlogged atomic.Bool  // the last claim was a full batch, and more timers were due
	walked     atomic.Value // a string: the tenant where the last round of fair claims ended

	positions store.Positions
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
	return &Store{Reader: &Reader{db: db}, opt: opt, node: store.NewNode(opt.Version), watermark: watermark{began: time.Now()}} //nolint:forbidigo // for the pace, not for timers
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
	return &Reader{db: db}, nil
}

// Close waits for running transactions and closes the handle that Open opened; the handle of
// a host stays open. The store must not be used afterwards.
func (s *Store) Close() error {
	s.working.wait()
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

var _ interface {
	timer.Store
	timer.Reader
	timer.Operator
	timer.Recoverer
	outbox.Table
} = (*Store)(nil)
