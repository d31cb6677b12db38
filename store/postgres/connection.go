package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Durability says which failures a commit survives.
type Durability int

// Durabilities.
const (
	Strict  Durability = iota // a loss of power: every commit is synced, as the server is set
	Relaxed                   // a crash of this process; a crash of the server may take the last commits
)

const (
	connectTimeout = 5 * time.Second
	connections    = 10 // of Open: 8 that work, and two that hold the locks of an instance
	readers        = 4  // of OpenReader

	silence = 10 * time.Second // after which the connections of a server that does not answer are closed
)

// Connect returns a handle like that of Open, for [Migrate] and [ReferenceServiceCalls]. It
// connects when it is first used.
func Connect(url string) (*sql.DB, error) { return connect(url, connections) }

// connect returns a handle for the URL. It connects when it is first used. The files that the URL
// names are read at each connect, so that they can be replaced.
//
// Statements are prepared once for each connection, unless there is a pooler in between, which
// may give each transaction another connection to the server.
func connect(url string, limit int) (*sql.DB, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	chosen := strings.Contains(url, "default_query_exec_mode") // by the user, who knows better
	var pooled atomic.Bool
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		now, err := parse(url)
		if err != nil {
			return err
		}
		if *c = *now; pooled.Load() && !chosen {
			c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return nil
	}), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		if pooled.Load() || chosen {
			return nil
		}
		direct, err := isDirect(ctx, c)
		if err == nil && !direct {
			pooled.Store(true)
			err = driver.ErrBadConn // connects again
		}
		if err != nil {
			_ = c.Close(ctx) // nobody else does
		}
		return err
	}))
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

// isDirect reports whether the process that a connection names is the one that answers. A
// pooler names a process of its own making, which only serves to cancel.
func isDirect(ctx context.Context, c *pgx.Conn) (bool, error) {
	var pid uint32
	err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid == c.PgConn().PID(), err
}

// parse reads a URL. Its error does not quote the parser's message: if a password has a slash
// in it, that message contains a part of the password.
func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("a file that the URL of the database names: %w", file)
	}
	if err != nil {
		return nil, errors.New("the URL of the database, or a file that it names, can't be read: it looks like postgres://user:password@host:5432/database?sslmode=require, " +
			"with %-escapes for special characters in the password")
	}
	if !strings.Contains(url, "sslmode") && os.Getenv("PGSSLMODE") == "" && slices.ContainsFunc(config.Fallbacks, inClear) {
		return nil, errNoTLSMode
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "timer-service"
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence, Interval: 5 * time.Second, Count: 3},
		Control:         giveUp,
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	return config, nil
}

// errNoTLSMode refuses the default of pgx, sslmode=prefer.
var errNoTLSMode = errors.New("the URL of the database names a server on another machine and no sslmode: if that server refuses TLS, the password goes over the network in clear. " +
	"Add sslmode=verify-full to db_url (or require), or sslmode=disable if you trust the network")

// inClear reports whether a connection leaves this machine without TLS.
func inClear(c *pgconn.FallbackConfig) bool {
	ip, _ := netip.ParseAddr(c.Host)
	return c.TLSConfig == nil && !strings.HasPrefix(c.Host, "/") && c.Host != "localhost" && !ip.IsLoopback()
}

// limit is how long a call may take, with all its statements. The server's own limits are
// shorter: this one is for a server that does not answer.
const limit = 30 * time.Second

// onConn runs fn with a connection of the pool, within a limit.
func onConn(ctx context.Context, db *sql.DB, fn func(context.Context, *pgx.Conn) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return withConn(bounded, db, fn)
}

// readTx runs statements in a transaction that only reads, in one round trip.
func readTx(ctx context.Context, db *sql.DB, steps ...step) error {
	return onConn(ctx, db, func(ctx context.Context, c *pgx.Conn) error {
		defer rollBack(ctx, c) // if a step fails
		return send(ctx, c, slices.Concat(reading(), steps, []step{{text: commit}})...)
	})
}

// withConn runs fn with a connection of the pool. When ctx ends, the error wraps ctx's error,
// whatever error the server or the network returned.
func withConn(ctx context.Context, db *sql.DB, fn func(context.Context, *pgx.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = onDriver(ctx, conn, fn)
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// onDriver runs fn with the pgx connection behind a connection of database/sql. database/sql
// closes the connection when the context of its transaction ends, and Raw panics if that
// happens while it takes the connection. Then onDriver returns [sql.ErrConnDone],
// as it would a moment later.
func onDriver(ctx context.Context, conn *sql.Conn, fn func(context.Context, *pgx.Conn) error) (err error) {
	taken := false
	defer func() {
		if !taken && recover() != nil {
			err = sql.ErrConnDone
		}
	}()
	return conn.Raw(func(driver any) error {
		taken = true
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%w: the handle's driver is %T: open it with pgx's, sql.Open(\"pgx\", url)", timer.ErrFatal, driver)
		}
		err := fn(ctx, c.Conn())
		if codeOf(err) == readOnly || errors.Is(err, errFenced) {
			_ = c.Conn().Close(ctx)
		}
		return err
	})
}

// readOnly is the code of a server that takes no writes: a standby, or a primary that was
// replaced and is set read-only. Connections to it stay open, so they are closed here: new ones go where the URL
// leads by then.
const readOnly = "25006"

// A step is a statement to send.
type step struct {
	text  string
	args  []any
	each  func(store.Scanner) error // called for each row; may be nil
	done  func(pgconn.CommandTag)   // called at the end, unless the statement fails; may be nil
	check func() error              // called after done, may fail; may be nil
}

// send runs statements in one round trip, and stops at the first that fails. The
// configuration of the connection decides whether they are prepared.
func send(ctx context.Context, c *pgx.Conn, steps ...step) error {
	batch := new(pgx.Batch)
	for _, s := range steps {
		batch.Queue(s.text, s.args...).Query(s.receive)
	}
	return c.SendBatch(ctx, batch).Close()
}

// receive reads the result of a statement.
func (s step) receive(rows pgx.Rows) error { return s.read(rows, rows.CommandTag) }

// A resultRows has the rows of a statement, from pgx or from database/sql.
type resultRows interface {
	store.Scanner
	Next() bool
	Err() error
}

// read reads the rows of a statement, and then its tag.
func (s step) read(rows resultRows, tag func() pgconn.CommandTag) error {
	for rows.Next() {
		if s.each == nil {
			continue
		}
		if err := s.each(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if s.done != nil {
		s.done(tag())
	}
	if s.check != nil {
		return s.check()
	}
	return nil
}
