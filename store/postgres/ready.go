package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// oldest is the oldest supported version of the server, as server_version_num.
const oldest = 150000

// ready checks the database once, until the check succeeds, and while it is set read-only.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && !s.fenced.Load() {
		return nil
	}
	now, err := s.checkServer(ctx)
	if err != nil || s.known {
		return err
	}
	if err := Verify(ctx, s.db); err != nil {
		return err
	}
	if now.denied != "" {
		return fmt.Errorf("%w: the role may not read and change %s: grant it SELECT, INSERT, UPDATE and DELETE", timer.ErrFatal, now.denied)
	}
	s.id, err = s.DatabaseID(ctx)
	s.known = err == nil
	return err
}

// firstCheck is how long a call in a transaction waits for the first check of the database.
const firstCheck = 5 * time.Second

// readyInTransaction is ready for a call in a transaction of the host program. If such transactions have
// all connections of the handle, the check would wait for them, and they for it.
func (s *Store) readyInTransaction(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, firstCheck)
	defer cancel()
	err := s.ready(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("the first use of the store has to check the database, which took too long: call Prepare before, in no transaction, if the transactions may have all connections of the handle: %w", err)
	}
	return err
}

// Prepare checks the database before the first use: the server's version and
// how it syncs, and the schema, as [Verify] does.
func (s *Store) Prepare(ctx context.Context) error {
	return classify("check the database", s.ready(ctx))
}

// errFenced says that a person keeps writes away from a database, as from an old primary.
var errFenced = errors.New("the database is set read-only: default_transaction_read_only is on for the database or the server, so its connections are given up until that is taken back, or the URL leads to another server")

// fence remembers whether the database is set read-only, which its error says, or only the
// role's own sessions, which this store overrides. An own handle then keeps no connection, since
// older ones may not know the setting.
func (s *Store) fence(own, fenced bool) error {
	s.overrides.Store(own)
	if s.fenced.Swap(fenced) != fenced && !s.host {
		s.db.SetConnMaxLifetime(map[bool]time.Duration{true: 1}[fenced])
	}
	if fenced {
		return errFenced
	}
	return nil
}

// A serverState is a row of server.sql and tables.sql.
type serverState struct {
	number                      int64
	version, synchronous, fsync string
	own, fenced                 bool

	unlogged, hidden, denied, dropping string // names of tables; a denied one is not checked here, since each statement on it fails
}

func (s *serverState) server() []any {
	return []any{&s.number, &s.version, &s.synchronous, &s.fsync, &s.own, &s.fenced}
}

func (s *serverState) tables() []any { return []any{&s.unlogged, &s.hidden, &s.denied, &s.dropping} }

// CheckServer returns an error that wraps [timer.ErrFatal] if the server can't keep the
// promises of the store.
func (s *Store) CheckServer(ctx context.Context) error {
	_, err := s.checkServer(ctx)
	return err
}

func (s *Store) checkServer(ctx context.Context) (now serverState, err error) {
	if err := checkProduct(ctx, s.db); err != nil {
		return now, err
	}
	if err := readTx(ctx, s.db, step{text: sqlServer, each: store.Scan(now.server()...), check: func() error { return s.fence(now.own, now.fenced) }},
		step{text: sqlTables, each: store.Scan(now.tables()...)}); err != nil {
		return now, err
	}
	return now, now.check(s.opt.Durability)
}

// products are the names of PostgreSQL, and of services that run it.
var products = regexp.MustCompile(`^PostgreSQL \d[\d.]*((alpha|beta|rc)\d+|devel)?( .*)?$`)

// checkProduct returns an error that wraps [timer.ErrFatal] if a server only speaks the protocol of
// PostgreSQL. It changes nothing, and says so before a migration fails halfway.
func checkProduct(ctx context.Context, db *sql.DB) error {
	var name string
	if err := readTx(ctx, db, step{text: sqlProduct, each: store.Scan(&name)}); err != nil {
		return err
	}
	if !products.MatchString(name) {
		return fmt.Errorf("%w: the server is not PostgreSQL: it calls itself %q, and nobody has shown that it keeps the promises of locks and commits that the service needs",
			timer.ErrFatal, store.Printable(name))
	}
	return nil
}

func (s *serverState) check(d Durability) error {
	switch {
	case s.unlogged != "":
		return fmt.Errorf("%w: a crash of the server empties tables that are UNLOGGED: %s: ALTER each TABLE … SET LOGGED", timer.ErrFatal, s.unlogged)
	case s.hidden != "":
		return fmt.Errorf("%w: row-level security hides rows from the role: %s: disable it for these tables, or give the role BYPASSRLS", timer.ErrFatal, s.hidden)
	case s.dropping != "":
		return fmt.Errorf("%w: rules, or triggers BEFORE each row, may drop rows in silence: %s: drop these; a host's triggers belong on timer_schedules", timer.ErrFatal, s.dropping)
	}
	return judge(s.number, s.version, s.synchronous, s.fsync, d)
}

// judge returns an error that says why a server can't be used.
func judge(number int64, version, synchronous, fsync string, d Durability) error {
	switch {
	case number < oldest:
		return fmt.Errorf("%w: the server is PostgreSQL %s: it must be PostgreSQL %d or newer", timer.ErrFatal, version, oldest/10000)
	case d == Strict && fsync == "off":
		return fmt.Errorf("%w: the server has fsync = off: a loss of power may take the whole database; turn it on (on Neon set synchronous_commit = on), or set durability to relaxed", timer.ErrFatal)
	case d == Strict && synchronous == "off":
		return fmt.Errorf("%w: the database has synchronous_commit = off: a crash of the server may take timers that were accepted; "+
			"turn it on for the database and the role, or set durability to relaxed", timer.ErrFatal)
	}
	return nil
}

// errReplica says that a server takes no writes.
var errReplica = errors.New("the server takes no writes: it is a replica")

// lockNotAvailable is the code of the error for a lock that was not free in time.
const lockNotAvailable = "55P03"

// Check returns the reason why the database can't work, as far as it can be found without a
// write: the server does not answer, takes no writes, can't keep the promises of the service
// (then the error wraps [timer.ErrFatal]), or another transaction has locked the tables.
func (s *Store) Check(ctx context.Context) error {
	locked, err := s.check(ctx)
	if locked { // perhaps for a moment
		err = readTx(ctx, s.db, step{text: sqlLockSoon}, step{text: sqlLockTables})
	}
	if codeOf(err) == lockNotAvailable {
		err = fmt.Errorf("another transaction holds a lock on the tables, see pg_locks: %w", err)
	}
	return classify("check the database", err)
}

const watchInterval = time.Second

// Watch checks every second that the schema is one that this binary knows, that the server is
// set to keep commits, and that the database has the history that it had, unless [Store.Check] has
// found so within that second. Now and then Watch tidies up. It returns nil when ctx is done. It returns an error that wraps [timer.ErrFatal] if the
// schema does not exist, or is newer and does not say that this binary may go on; if the
// server loses commits; or if the database was restored or failed over to another server.
func (s *Store) Watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var tidying sync.WaitGroup
	defer tidying.Wait()
	defer stop()
	tidying.Go(func() { s.tidyUp(ctx) })
	for {
		if last := s.checked.Load(); last == nil || time.Since(*last) >= watchInterval { //nolint:forbidigo // for the pace, not for timers
			if _, err := s.check(ctx); ctx.Err() == nil && errors.Is(err, timer.ErrFatal) {
				return err
			}
		}
		if !pause.For(ctx, watchInterval) {
			return nil
		}
	}
}

// tidyUp folds counts and deletes old numbers, now and then until ctx is done. While another
// transaction holds a snapshot, it steps over all rows that were folded meanwhile. So it rests
// after a fold that took long, unless that had much to fold.
func (s *Store) tidyUp(ctx context.Context) {
	for again := time.Duration(0); pause.For(ctx, again); {
		began := time.Now() //nolint:forbidigo // for the pace, not for timers
		folded, err := s.foldAny(ctx)
		if err == nil {
			err = s.trim(ctx)
		}
		again = foldInterval
		if folded < foldBatch {
			again = pause.Rest(time.Since(began), foldInterval) //nolint:forbidigo // for the pace, too
		}
		if err != nil && ctx.Err() == nil {
			s.opt.Log.WarnContext(ctx, "counts of timers can't be summed up, or old numbers can't be deleted, will retry", "error", err, "retry_in", again)
		}
	}
}

// check reports whether another transaction may have a lock on the tables. The error names
// the fault of the database. An idle instance does this all the time, so it is one statement. If
// that fails, as without one of the tables, the statements that it is made of say why.
func (s *Store) check(ctx context.Context) (locked bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	began := time.Now() //nolint:forbidigo // for the pace, not for timers
	locked, err = s.checkAtOnce(ctx)
	if codeOf(err) != "" {
		locked, err = false, s.checkParts(ctx)
	}
	if err == nil {
		s.checked.Store(&began)
	}
	return locked, err
}

func (s *Store) checkAtOnce(ctx context.Context) (locked bool, err error) {
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	text := sqlCheck[s.opt.Durability]
	if h.last != nil && h.last.timeline == "" {
		text = sqlCheckStarted
	}
	var server serverState
	var history chronicle
	var version int64
	var replica bool
	columns := slices.Concat(server.server(), server.tables(), []any{&version}, history.columns(), []any{&replica, &locked})
	if err := onConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
		return send(ctx, c, step{text: text, each: store.Scan(columns...), check: func() error { return s.fence(server.own, server.fenced) }})
	}); err != nil {
		return false, classify("check the database", err)
	}
	if err := server.check(s.opt.Durability); err != nil {
		return false, err
	}
	if version != SchemaVersion {
		if err := verifyRunning(ctx, s.db); err != nil {
			return false, err
		}
	}
	if err := h.compare(history); err != nil {
		return false, err
	}
	if replica {
		err = errReplica
	}
	return locked, err
}

// checkParts is checkAtOnce in several statements. A server that runs them all is checked for locks
// by the next call.
func (s *Store) checkParts(ctx context.Context) error {
	if err := s.CheckServer(ctx); err != nil {
		return classify("check the server", err)
	}
	if err := verifyRunning(ctx, s.db); err != nil {
		return err
	}
	return classify("verify the history", s.verify(ctx))
}

// Identity returns the id that the database got when it was created, and its name and server.
func (s *Store) Identity(ctx context.Context) (id, name string, err error) {
	if err := s.ready(ctx); err != nil {
		return "", "", classify("identify the database", err)
	}
	var database, schema, server string
	if err := s.rows(ctx, "identify the database", sqlIdentity, nil, store.Scan(&id, &database, &schema)); err != nil {
		return "", "", err
	}
	if schema != "public" {
		database += "." + schema
	}
	err = onConn(ctx, s.db, func(_ context.Context, c *pgx.Conn) error {
		server = net.JoinHostPort(c.Config().Host, strconv.Itoa(int(c.Config().Port)))
		return nil
	})
	return id, "postgres " + database + " on " + server, classify("identify the database", err)
}

// Attach records which broker the instances use. It writes only if that changes.
func (s *Store) Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error) {
	const doing = "attach the database to a broker"
	for {
		var used, usedName string
		if err := s.seek(ctx, doing, sqlBroker, nil, store.Scan(&used, &usedName)); err != nil || used == broker {
			return "", err
		}
		if changed, err := s.change(ctx, doing, sqlAttach, broker, store.Printable(name), takeover); err != nil {
			return "", err
		} else if changed == 0 {
			return cmp.Or(usedName, "another broker"), nil
		}
	}
}

var (
	sqlTables    = query("tables")
	sqlChecksums = query("checksums")
)

// Denied returns the names of the tables, with commas between them, that the role may not
// read or change although it needs to.
func (r *Reader) Denied(ctx context.Context) (tables string, err error) {
	var unlogged, hidden, dropping string
	err = r.rows(ctx, "read the rights of the role", sqlTables, nil, store.Scan(&unlogged, &hidden, &tables, &dropping))
	return tables, err
}

// Checksums reports whether the server notices pages that its disk has changed
// (data_checksums). Without checksums damage may stay unnoticed.
func (r *Reader) Checksums(ctx context.Context) (on bool, err error) {
	err = r.rows(ctx, "find whether the server has checksums", sqlChecksums, nil, store.Scan(&on))
	return on, err
}

// Running returns how many instances run on the database, counted by the shards that they
// own. An instance that has just started, or that is suspended, is not counted.
func (r *Reader) Running(ctx context.Context) (n int, err error) {
	err = r.rows(ctx, "count instances", sqlInstances, nil, store.Scan(&n))
	return n, err
}
