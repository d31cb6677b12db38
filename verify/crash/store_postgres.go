package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

const (
	databaseTimeout = 2 * time.Minute // for an answer of the database
	holdPool        = 3 * time.Second // how long all connections are taken

	role            = "timer_service" // of the service
	roleConnections = 30              // for each instance; its pool is smaller
)

// postgresDatabase is a database on a server of the run's own.
type postgresDatabase struct {
	server      *postgresd.Server
	dir         string // of the server
	port        int    // of the server
	connections int    // that the role may have
}

// openPostgres starts a server, and makes the database.
func openPostgres(ctx context.Context, opt Options, dir string) (*postgresDatabase, error) {
	d := &postgresDatabase{dir: dir, connections: roleConnections * opt.Instances}
	var err error
	if d.port, err = freeport.Find(ctx); err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	for _, text := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN CONNECTION LIMIT %d", role, d.connections), "CREATE DATABASE timers OWNER " + role,
	} {
		if _, err := d.do(ctx, "postgres", text); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", text, err), d.close())
		}
	}
	return d, nil
}

// start starts the server where it was.
func (d *postgresDatabase) start(ctx context.Context) (err error) {
	d.server, err = postgresd.Start(ctx, d.dir, d.port)
	return err
}

// url is where a role connects with the database.
func (d *postgresDatabase) url(role string) string {
	return fmt.Sprintf("postgres://%s@%s/timers?sslmode=disable", role, freeport.Address(d.port))
}

func (d *postgresDatabase) environ() []string { return []string{"TIMER_DB_URL=" + d.url(role)} }

// do executes a statement as superuser, and returns how many rows were concerned.
func (d *postgresDatabase) do(ctx context.Context, database, statement string, args ...any) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", freeport.Address(d.port), database))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	tag, err := conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (d *postgresDatabase) age(ctx context.Context, tenant string, by time.Duration) (timers int64, err error) {
	return d.do(ctx, "timers", `
UPDATE timer_schedules
   SET registered_at = registered_at - $1::interval, due_at = due_at - $1::interval,
       reached_at = reached_at - $1::interval, canceled_at = canceled_at - $1::interval
 WHERE tenant_id = $2`, by, tenant)
}

// interrupt does one of four things: it ends all connections with the database, takes
// all that the service may have for a while, or stops or kills the server and starts it again.
func (d *postgresDatabase) interrupt(ctx context.Context, r *run) error {
	switch r.rand.IntN(4) {
	case 0:
		return d.disconnect(ctx)
	case 1:
		return d.takePool(ctx, r)
	case 2:
		d.server.Stop()
	default:
		d.server.Kill()
	}
	if err := r.rest(ctx, storeOff.any(r.rand)); err != nil {
		return err
	}
	return d.start(ctx)
}

// disconnect ends all connections of the service.
func (d *postgresDatabase) disconnect(ctx context.Context) error {
	_, err := d.do(ctx, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND application_name <> 'taken'`, role)
	return err
}

// takePool takes all connections that the service may have, also its open ones.
func (d *postgresDatabase) takePool(ctx context.Context, r *run) error {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(context.Background()) // it was only there
		}
	}()
	for len(taken) < d.connections {
		conn, err := pgx.Connect(ctx, d.url(role)+"&application_name=taken")
		if err == nil {
			taken = append(taken, conn)
			continue
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "53300" { // too_many_connections
			return err
		}
		if err := d.disconnect(ctx); err != nil {
			return err
		}
		if !pause.For(ctx, 10*time.Millisecond) { // a connection ends a moment after it is asked to
			return ctx.Err()
		}
	}
	return r.rest(ctx, holdPool)
}

// close ends the server.
func (d *postgresDatabase) close() error {
	if d.server != nil {
		d.server.Stop()
	}
	return nil
}
