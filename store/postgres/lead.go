package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A lead is held by a transaction that does nothing but hold a lock. The server
// ends it, and with it the lead, as soon as the connection is gone, or when it
// has heard nothing for as long as settings.sql says: so there is no lease whose end
// two clocks could see differently. A transaction that is idle between two
// statements holds back no vacuum.
const (
	keepInterval = time.Second     // between two signs of life
	keepPatience = 2 * time.Second // longest wait for the answer to one
	// certain is how long after an answer the lead is surely still held: less than
	// idle_in_transaction_session_timeout in settings.sql.
	certain = 3500 * time.Millisecond
)

// leastConnections is how many a handle must have: one holds the lead of an
// instance's own shard, one that of a shard left behind, one works.
const leastConnections = 3

// A lead is the right to forward a shard.
type lead struct {
	shard

	conn *sql.Conn
	lost chan struct{}
	stop context.CancelFunc // of keep
	kept chan struct{}      // closed when keep has ended

	began time.Time    // any moment
	heard atomic.Int64 // when the server answered last, in nanoseconds since then
}

var errNoShard = errors.New("all shards of the outbox are led: there are 256")

// Own leads a shard that nobody leads. From now on events go there.
func (s *Store) Own(ctx context.Context) (outbox.Lead, error) {
	l, err := s.lead(ctx, sqlOwn)
	switch {
	case err != nil:
		return nil, classify("lead a shard of the outbox", err)
	case l == nil:
		return nil, errNoShard
	}
	s.shard.Store(l.number)
	return l, nil
}

// Orphan leads a shard that has rows and that nobody leads.
func (s *Store) Orphan(ctx context.Context) (outbox.Lead, error) {
	l, err := s.lead(ctx, sqlOrphan)
	if err != nil || l == nil {
		return nil, classify("look for shards that nobody leads", err)
	}
	return l, nil
}

// lead begins a transaction and keeps it if the statement returns a shard.
func (s *Store) lead(ctx context.Context, text string) (_ *lead, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now() //nolint:forbidigo // of what the server holds, not of timers
	var number int64
	err = onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error {
		if err := send(ctx, c, step{text: beginWriting}, step{text: sqlSettings, args: []any{false}}); err != nil {
			return err
		}
		if number, err = simple(ctx, c, text); err != nil {
			return err
		}
		return s.countInstances(ctx, c)
	})
	if err == nil {
		err = s.spare(ctx)
	}
	if err != nil {
		hangUp(conn)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return nil, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &lead{
		shard: s.part(int32(number)), conn: conn, lost: make(chan struct{}),
		stop: stop, kept: make(chan struct{}), began: began,
	}
	go l.keep(keeping)
	return l, nil
}

// spareTimeout is how long a lead waits for the connection that it leaves.
const spareTimeout = 2 * time.Second

var errNoSpare = errors.New("no connection is left beside those that hold leads")

// spare returns nil if there is a connection beside those that hold leads. Who
// leads without one can never forward, and so never gives up what he leads.
func (s *Store) spare(ctx context.Context) error {
	if n := s.db.Stats().MaxOpenConnections; n > 0 && n < leastConnections {
		return fmt.Errorf("%w: the handle has at most %d connections: give it %d or more", timer.ErrFatal, n, leastConnections)
	}
	ctx, cancel := context.WithTimeout(ctx, spareTimeout)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil { // which needs one of the server's too, behind PgBouncer
		return fmt.Errorf("%w: %w", errNoSpare, err)
	}
	return nil
}

// keep gives signs of life until ctx is done or the lead is lost.
func (l *lead) keep(ctx context.Context) {
	defer close(l.kept)
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Since(l.began) //nolint:forbidigo // as above
		if err := l.sign(ctx); err != nil {
			if ctx.Err() == nil {
				close(l.lost)
			}
			return
		}
		l.heard.Store(int64(asked))
	}
}

// sign gives a sign of life, and learns how many instances there are.
func (l *lead) sign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return onDriver(ctx, l.conn, l.countInstances)
}

// countInstances learns how many instances there are. Who leads counts itself.
func (s *Store) countInstances(ctx context.Context, c *pgx.Conn) error {
	instances, err := simple(ctx, c, sqlInstances)
	if err == nil {
		s.instances.Store(instances)
	}
	return err
}

// simple runs a statement by the simple protocol and returns the number in its only
// row. The extended one leaves a portal behind until the next statement, and with
// it a snapshot that holds back vacuum. pgx's own way refuses sessions that are not
// in UTF-8, or have other rules for quotes: here is nothing to quote.
func simple(ctx context.Context, c *pgx.Conn, text string) (int64, error) {
	results, err := c.PgConn().Exec(ctx, text).ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || len(results[0].Rows) == 0 {
		return 0, pgx.ErrNoRows
	}
	return strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
}

// Shard is the number of the shard.
func (l *lead) Shard() int { return int(l.number) }

// Lost is closed when the server did not answer.
func (l *lead) Lost() <-chan struct{} { return l.lost }

// Release ends the transaction.
func (l *lead) Release() {
	l.stop()
	<-l.kept
	hangUp(l.conn)
}

// hangUp ends a transaction and gives the connection back, or closes it if it
// does not answer.
func hangUp(conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := onDriver(ctx, conn, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "ROLLBACK")
		return err
	}); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	}
	_ = conn.Close() // of one that is closed already says so
}

var errUncertain = errors.New("the server did not answer for a while: others may lead the shard of the outbox")

// Head returns rows as long as the lead is certain. A process that was stopped
// goes on where it was, and must not go on with what others took over.
func (l *lead) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	if silent := time.Since(l.began) - time.Duration(l.heard.Load()); silent > certain { //nolint:forbidigo // as above
		return nil, fmt.Errorf("read the outbox: %w", errUncertain)
	}
	return l.shard.Head(ctx, after, limit)
}

// Instances returns how many instances there are that share the database, at
// least one: as many as it was a second ago.
func (s *Store) Instances() int { return max(1, int(s.instances.Load())) }

// Now returns the time at the server.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = look(ctx, s.db, step{text: sqlNow, each: scan(&now)})
	return now, classify("ask the server for the time", err)
}

var _ outbox.Shards = (*Store)(nil)
