package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A lease is held by a transaction that does nothing but hold a lock. The server ends the
// transaction, and with it the lease, as soon as the connection is closed, or when the server
// has received nothing for the time in settings.sql. So two clocks can't disagree about its
// end. A transaction that is idle between two statements does not hold back vacuum.
const (
	heartbeatInterval = time.Second
	heartbeatTimeout  = 2 * time.Second
	// certain is how long after an answer the lease is surely still held. It is less than
	// idle_in_transaction_session_timeout in settings.sql.
	certain = 3500 * time.Millisecond
)

// leastConnections is how many connections a handle must have: one holds the lease of the
// instance's own shard, one that of an abandoned shard, one works.
const leastConnections = 3

// A lease is the ownership of a shard.
type lease struct {
	shard

	conn *sql.Conn
	held context.Context    // ends when the lease is lost
	lose context.CancelFunc // ends held
	stop context.CancelFunc // stops the heartbeats
	done chan struct{}      // closed when heartbeats have ended

	began    time.Time    // where answered counts from
	answered atomic.Int64 // when the server answered last, in nanoseconds since began
	wall     atomic.Int64 // the same by the wall clock, in Unix milliseconds
}

var errNoShard = errors.New("another instance reads the messages that the database lacks, or all 256 shards of the outbox have an owner")

// Own owns a shard that has no owner. From then on events are appended to it.
func (s *Store) Own(ctx context.Context, r outbox.Receivers) (outbox.Lease, error) {
	if err := s.renumber(ctx); err != nil {
		return nil, err
	}
	l, err := s.lease(ctx, sqlOwn, "", r)
	switch {
	case err != nil:
		return nil, classify("own a shard of the outbox", err)
	case l == nil:
		return nil, errNoShard
	}
	s.appending.Store(l.number)
	return l, nil
}

// TakeOver owns a shard that has rows and no owner, and returns nil if there is none.
func (s *Store) TakeOver(ctx context.Context) (outbox.Lease, error) {
	var shards string // numbers, with commas between them
	err := s.seek(ctx, "find shards of the outbox", sqlAbandoned, nil, store.Scan(&shards))
	if err != nil || shards == "" {
		return nil, err
	}
	l, err := s.lease(ctx, sqlTakeOver, shards, outbox.Receivers{})
	if err != nil || l == nil {
		return nil, classify("find an abandoned shard of the outbox", err)
	}
	return l, nil
}

var errRolledBack = errors.New("rolled back")

// renumber raises the sequence of events above the numbers of existing rows. After a move by
// logical replication the database has the old rows, but its sequence starts at one.
func (s *Store) renumber(ctx context.Context) error {
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		var next, highest int64
		t.later(step{text: sqlLock, args: []any{int32(lockNumbers)}})
		// In this order: what others append in between has numbers below the next one.
		if err := t.rows(ctx, sqlNumbered, nil, store.Scan(&highest)); err != nil {
			return err
		}
		if err := t.rows(ctx, sqlNumber, []any{s.appending.Load()}, store.Scan(&next)); err != nil {
			return err
		}
		if next > highest {
			return errRolledBack
		}
		if err := t.rows(ctx, sqlRenumber, []any{highest}, store.Scan(&highest)); err != nil {
			return fmt.Errorf("%w: the sequence of timer_outbox is at %d, behind its rows, and can't be moved up to %d: %w", timer.ErrFatal, next, highest, err)
		}
		s.opt.Log.WarnContext(ctx, "the sequence of timer_outbox was behind its rows, as after logical replication: moved up", "from", next, "to", highest)
		return errRolledBack // the sequence keeps its new number
	})
	if errors.Is(err, errRolledBack) {
		return nil
	}
	return classify("number events", err)
}

// lease begins a transaction and keeps it open if the statement returns a shard. The
// transaction reads no table of ours: a change to such a table would wait for the end of the
// lease, and all other statements would wait behind the change.
func (s *Store) lease(ctx context.Context, text, abandoned string, r outbox.Receivers) (_ *lease, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	started, err := s.verified(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now() //nolint:forbidigo // a timeout of the server, not the time of timers
	var number int64
	err = onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error {
		about := step{text: sqlNode, args: []any{nodeName(s.node), abandoned, strconv.Itoa(int(r.Kind)), r.Prefixes}}
		if err := send(ctx, c, step{text: begin}, step{text: sqlSettings, args: []any{false, started}}, about); err != nil {
			return err
		}
		if number, err = toNumber(simple(ctx, c, text)); err != nil {
			return err
		}
		if other, err := simple(ctx, c, sqlOthers); err != nil || other != "" {
			return cmp.Or(err, otherReceivers(other, r.Kind))
		}
		return s.countInstances(ctx, c)
	})
	if err == nil {
		err = s.spare(ctx)
	}
	if err != nil {
		hangUp(conn)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
		return nil, s.restarted(ctx, err)
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, lose := context.WithCancel(context.WithoutCancel(ctx))
	l := &lease{
		shard: shard{store: s, number: int32(number)}, conn: conn, held: held, lose: lose,
		stop: stop, done: make(chan struct{}), began: began,
	}
	l.wall.Store(began.UnixMilli())
	l.readable = l.certain
	go l.heartbeats(beating)
	return l, nil
}

// spareTimeout is how long a lease waits for the one connection that must be left.
const spareTimeout = 2 * time.Second

var errNoSpare = errors.New("the leases leave no connection")

// spare returns nil if there is a connection other than the ones that hold leases. An instance
// without one could never forward, and so never end its leases.
func (s *Store) spare(ctx context.Context) error {
	if n := s.db.Stats().MaxOpenConnections; n > 0 && n < leastConnections {
		return fmt.Errorf("%w: the handle has at most %d connections: give it %d or more", timer.ErrFatal, n, leastConnections)
	}
	ctx, cancel := context.WithTimeout(ctx, spareTimeout)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil { // behind PgBouncer this needs the server too
		return fmt.Errorf("%w: %w", errNoSpare, err)
	}
	return nil
}

// heartbeats asks the server once a second until ctx is done or the lease is lost.
func (l *lease) heartbeats(ctx context.Context) {
	defer close(l.done)
	for pause.For(ctx, heartbeatInterval) {
		asked, wall := time.Since(l.began), time.Now().UnixMilli() //nolint:forbidigo // as above
		if err := l.heartbeat(ctx); err != nil {
			if ctx.Err() == nil {
				l.lose()
			}
			return
		}
		l.answered.Store(int64(asked))
		l.wall.Store(wall)
	}
}

// heartbeat asks the server how many instances there are. It fails if the database is set
// read-only.
func (l *lease) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	return onDriver(ctx, l.conn, func(ctx context.Context, c *pgx.Conn) error {
		if l.store.fenced.Load() {
			return errFenced
		}
		return l.store.countInstances(ctx, c)
	})
}

// countInstances reads how many instances there are. An owner counts itself.
func (s *Store) countInstances(ctx context.Context, c *pgx.Conn) error {
	instances, err := toNumber(simple(ctx, c, sqlInstances))
	if err == nil {
		s.instances.Store(instances)
	}
	return err
}

// simple runs a statement by the simple protocol and returns the first column of its only row. The
// extended protocol leaves a portal open until the next statement, and with it a snapshot
// that holds back vacuum. pgx's own simple protocol refuses sessions that are not in UTF-8 or
// have other rules for quotes, which do not matter here, since nothing is quoted.
func simple(ctx context.Context, c *pgx.Conn, text string) (string, error) {
	results, err := c.PgConn().Exec(ctx, text).ReadAll()
	if err != nil {
		return "", err
	}
	if len(results) != 1 || len(results[0].Rows) == 0 {
		return "", pgx.ErrNoRows
	}
	return string(results[0].Rows[0][0]), nil
}

func toNumber(text string, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// otherReceivers returns the error for another instance, of which others.sql has returned the
// text.
func otherReceivers(other string, own outbox.Kind) error {
	kind, name, _ := strings.Cut(other, " ")
	theirs, err := strconv.Atoi(kind)
	who := "another instance"
	if n, named := parseNode(name); named {
		who = fmt.Sprintf("process %d on %s (version %s)", n.PID, n.Host, cmp.Or(n.Version, "unknown"))
	}
	return cmp.Or(err, fmt.Errorf("%w: %s %s, this one %s: stop one of them, or give each a database, or a schema, of its own",
		outbox.ErrOtherReceivers, who, outbox.Kind(theirs), own))
}

func (l *lease) Shard() int { return int(l.number) }

// Lost returns a channel that is closed when the server did not answer.
func (l *lease) Lost() <-chan struct{} { return l.held.Done() }

// Release ends the transaction, and with it the lease.
func (l *lease) Release() {
	l.stop()
	<-l.done
	hangUp(l.conn)
}

// hangUp ends a transaction and gives the connection back, or closes the connection if it
// does not answer.
func hangUp(conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "ROLLBACK")
		return err
	}); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection
	}
	_ = conn.Close() // fails if it is closed already
}

var errUncertain = errors.New("the server did not answer for a while: another instance may own the shard of the outbox")

// certain returns nil as long as no other instance can own the shard. A process or a machine that
// was suspended goes on where it was, and must not send rows that another instance has taken
// over. The monotonic clock stands still while a machine is suspended, and the wall clock may be
// set back, so the lease is as old as either of them says.
func (l *lease) certain() error {
	silent := time.Since(l.began) - time.Duration(l.answered.Load())      //nolint:forbidigo // as above
	if max(silent, time.Since(time.UnixMilli(l.wall.Load()))) > certain { //nolint:forbidigo // as above
		return fmt.Errorf("read the outbox: %w", errUncertain)
	}
	return nil
}

// Instances returns how many instances shared the database a second ago, at least one.
func (s *Store) Instances() int { return max(1, int(s.instances.Load())) }

// Now returns the time at the server.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = readTx(ctx, s.db, step{text: sqlNow, each: store.Scan(&now)})
	return now, classify("ask the server for the time", err)
}

// Lock does nothing, since any number of instances may run.
func (s *Store) Lock(context.Context) (unlock func() error, err error) {
	return func() error { return nil }, nil
}

// Shared returns s, since instances share the server.
func (s *Store) Shared() store.Shared { return s }

var _ outbox.Shards = (*Store)(nil)
