package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// databaseTimeout is for an answer of the database. To make and drop one the server writes
// all that it has not written yet.
const databaseTimeout = 2 * time.Minute

// postgresDatabase is a database of this run alone.
type postgresDatabase struct {
	admin string // URL of the server, with a database that is there anyway
	name  string

	server *postgresd.Server // nil if the run did not start it
	dir    string            // of that server
	port   int               // of that server
}

// openPostgres makes a database, on a server of its own if the options name
// none.
func openPostgres(ctx context.Context, opt Options, dir string) (_ database, err error) {
	d := &postgresDatabase{admin: opt.StoreURL, name: fmt.Sprintf("timer_crash_%08x", rand.Uint32()), dir: dir}
	if d.admin == "" {
		if d.port, err = freeport.Find(ctx); err != nil {
			return nil, err
		}
		if d.server, err = postgresd.Start(ctx, dir, d.port); err != nil {
			return nil, err
		}
		d.admin = d.server.URL()
	}
	if err := d.do(ctx, d.admin, "CREATE DATABASE "+d.name); err != nil {
		return nil, errors.Join(fmt.Errorf("make the database %s: %w", d.name, err), d.close())
	}
	return d, nil
}

// url is that of the database.
func (d *postgresDatabase) url() string {
	u, err := url.Parse(d.admin)
	if err != nil {
		return d.admin // connecting to it gives a better error
	}
	u.Path = "/" + d.name
	return u.String()
}

func (d *postgresDatabase) environ() []string { return []string{"TIMER_DB_URL=" + d.url()} }

// do connects and executes one statement.
func (d *postgresDatabase) do(ctx context.Context, url, statement string, args ...any) error {
	_, err := d.count(ctx, url, statement, args...)
	return err
}

// count is do, and returns how many rows were concerned.
func (d *postgresDatabase) count(ctx context.Context, url, statement string, args ...any) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	tag, err := conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (d *postgresDatabase) age(ctx context.Context, tenant string, by time.Duration) (timers int64, err error) {
	return d.count(ctx, d.url(), `
UPDATE timer_schedules
   SET registered_at = registered_at - $1::interval, due_at = due_at - $1::interval,
       reached_at = reached_at - $1::interval, canceled_at = canceled_at - $1::interval
 WHERE tenant_id = $2`, by, tenant)
}

// interrupt ends all connections with the database, or kills the server, which is
// for one of the run's own.
func (d *postgresDatabase) interrupt(ctx context.Context, r *run) error {
	if d.server == nil || r.rand.IntN(2) == 0 {
		return d.disconnect(ctx)
	}
	return d.restart(ctx, storeOff.any(r.rand))
}

// disconnect ends all connections with the database.
func (d *postgresDatabase) disconnect(ctx context.Context) error {
	return d.do(ctx, d.admin, `
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = $1 AND pid <> pg_backend_pid()`, d.name)
}

// restart kills the server and starts it again after a while.
func (d *postgresDatabase) restart(ctx context.Context, after time.Duration) error {
	d.server.Kill()
	if !pause.For(ctx, after) {
		return ctx.Err()
	}
	server, err := postgresd.Start(ctx, d.dir, d.port)
	if err != nil {
		return err
	}
	d.server = server
	return nil
}

// close drops the database, or ends the server of the run's own.
func (d *postgresDatabase) close() error {
	if d.server != nil {
		d.server.Stop()
		return nil
	}
	// The context of the run may have ended; this must run.
	return d.do(context.Background(), d.admin, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}
