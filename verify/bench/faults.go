package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// A Fault is what [Chaos] does to a part, again and again.
type Fault string

// Faults.
const (
	RestartDatabase Fault = "restart"  // PostgreSQL is stopped, every other time killed, and started again
	EndBackends     Fault = "backends" // all connections with the database of the service are ended
	TakePool        Fault = "pool"     // other connections take all that the role of the service may have
	KillService     Fault = "service"  // the service is killed and started again
	RestartBroker   Fault = "broker"   // NATS is killed and started again
)

// Faults are all faults.
var Faults = []Fault{RestartDatabase, EndBackends, TakePool, KillService, RestartBroker}

// kindsOfFaults say how often each is injected, and how. The function returns
// when the fault was over: the server accepts clients again, the connections are
// given back, or the service is started again. The service's own start is a
// part of its recovery.
var kindsOfFaults = map[Fault]struct {
	every  time.Duration
	inject func(c *chaos, ctx context.Context, number int) (over time.Time, err error)
}{
	RestartDatabase: {30 * time.Second, (*chaos).restartDatabase},
	EndBackends:     {time.Second, (*chaos).endBackends},
	TakePool:        {8 * time.Second, (*chaos).takePool},
	KillService:     {5 * time.Second, (*chaos).killService},
	RestartBroker:   {30 * time.Second, (*chaos).restartBroker},
}

// holdPool is how long the connections of the role are taken each time.
const holdPool = 3 * time.Second

const (
	role            = "timer_service"
	roleConnections = 30 // that the role may have; the pool of the service is smaller
)

// injected says when faults were injected.
type injected struct {
	count       int
	first, last time.Time // of the phase of faults, which begins before the first fault
	over        time.Time // when the last fault was over
}

// inject waits for the calm before, and injects faults for the duration: at
// least two.
func (c *chaos) inject(ctx context.Context, f Fault) (times injected, err error) {
	if err := c.wait(ctx, warmUp+leadMax+calm); err != nil {
		return times, err
	}
	kind := kindsOfFaults[f]
	every := min(kind.every, c.opt.Duration/2)
	times.first = time.Now()
	times.last = times.first.Add(c.opt.Duration)
	for next := times.first.Add(every / 2); next.Before(times.last); next = next.Add(every) {
		if err := c.wait(ctx, time.Until(next)); err != nil {
			return times, err
		}
		if times.over, err = kind.inject(c, ctx, times.count); err != nil {
			return times, fmt.Errorf("inject fault %d, %s: %w", times.count+1, f, err)
		}
		times.count++
	}
	return times, c.wait(ctx, time.Until(times.last))
}

func (c *chaos) restartDatabase(ctx context.Context, number int) (time.Time, error) {
	if number%2 == 0 {
		c.servers.postgres.Stop()
	} else {
		c.servers.postgres.Kill()
	}
	err := c.servers.startPostgres(ctx)
	return time.Now(), err
}

func (c *chaos) endBackends(ctx context.Context, _ int) (time.Time, error) {
	err := c.servers.endBackends(ctx)
	return time.Now(), err
}

func (c *chaos) takePool(ctx context.Context, _ int) (time.Time, error) {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(context.Background()) // it was only there
		}
	}()
	for len(taken) < roleConnections {
		if err := c.servers.endBackends(ctx); err != nil {
			return time.Time{}, err
		}
		for {
			conn, err := pgx.Connect(ctx, c.servers.databaseURL())
			if isTooMany(err) {
				break
			}
			if err != nil {
				return time.Time{}, err
			}
			taken = append(taken, conn)
		}
		if !pause.For(ctx, 10*time.Millisecond) { // a connection ends a moment after it is asked to
			return time.Time{}, ctx.Err()
		}
	}
	err := c.wait(ctx, holdPool)
	return time.Now(), err
}

// isTooMany reports whether the role has all connections that it may have.
func isTooMany(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "53300" // too_many_connections
}

func (c *chaos) killService(ctx context.Context, _ int) (time.Time, error) {
	if err := c.instances[0].kill(); err != nil {
		return time.Time{}, err
	}
	over := time.Now()
	i, err := start(ctx, c.bin, c.environ, c.fallen)
	if i != nil {
		c.instances[0] = i
	}
	return over, err
}

func (c *chaos) restartBroker(ctx context.Context, _ int) (time.Time, error) {
	if err := syscall.Kill(c.servers.broker.PID(), syscall.SIGKILL); err != nil {
		return time.Time{}, fmt.Errorf("kill the broker: %w", err)
	}
	_ = c.servers.broker.Stop() // waits for its end, and says that it was killed
	c.servers.broker = nil
	err := c.servers.startBroker(ctx)
	return time.Now(), err
}

// Servers are the run's own.
type servers struct {
	dir          string
	postgres     *postgresd.Server
	postgresPort int
	broker       crash.Server
	brokerPort   int
}

// start starts them for the first time.
func (s *servers) start(ctx context.Context) (err error) {
	if s.postgresPort, err = freeport.Find(ctx); err != nil {
		return err
	}
	if s.brokerPort, err = freeport.Find(ctx); err != nil {
		return err
	}
	if err := s.startPostgres(ctx); err != nil {
		return err
	}
	if err := s.do(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN CREATEDB CONNECTION LIMIT %d", role, roleConnections)); err != nil {
		return err
	}
	return s.startBroker(ctx)
}

func (s *servers) startPostgres(ctx context.Context) error {
	server, err := postgresd.Start(ctx, s.dir, s.postgresPort)
	if err == nil {
		s.postgres = server
	}
	return err
}

func (s *servers) startBroker(ctx context.Context) error {
	b, err := crash.StartBroker(ctx, s.dir, s.brokerPort)
	if err == nil {
		s.broker = b
	}
	return err
}

// databaseURL is where the role of the service connects.
func (s *servers) databaseURL() string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, s.postgres.Address())
}

func (s *servers) brokerURL() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.brokerPort))
}

// endBackends ends all connections but those with the database postgres, which
// are not the service's.
func (s *servers) endBackends(ctx context.Context) error {
	return s.do(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres'")
}

// do executes a statement as superuser.
func (s *servers) do(ctx context.Context, statement string) error {
	return execute(ctx, s.postgres.URL(), statement)
}

// stop stops the servers that run.
func (s *servers) stop() (err error) {
	if s.broker != nil {
		err = s.broker.Stop()
	}
	if s.postgres != nil {
		s.postgres.Stop()
	}
	return err
}
