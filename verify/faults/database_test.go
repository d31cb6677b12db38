package faults_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// A postgres is a PostgreSQL server of a test's own, and a proxy through which
// the service reaches it.
type postgres struct {
	t      *testing.T
	dir    string
	opt    postgresd.Options
	server *postgresd.Server
	proxy  *proxy.Proxy
	at     string // the proxy's address
}

func newPostgres(t *testing.T) *postgres {
	t.Helper()
	if err := postgresd.Installed(); errors.Is(err, postgresd.ErrNotInstalled) {
		missing(t, "%v", err)
	}
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &postgres{t: t, dir: t.TempDir(), opt: postgresd.Options{Port: port}}
	p.start()
	t.Cleanup(func() { p.server.Kill() })
	p.proxy = proxy.New(proxy.TCP(p.server.Address()))
	if p.at, err = p.proxy.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.proxy.Close() })
	return p
}

// start starts the server, where it was before.
func (p *postgres) start() {
	p.t.Helper()
	var err error
	if p.server, err = postgresd.Start(p.t.Context(), p.dir, p.opt); err != nil {
		p.t.Fatal(err)
	}
}

// environ names the database to the service.
func (p *postgres) environ() string {
	return "TIMER_DB_URL=" + strings.Replace(p.server.URL(), p.server.Address(), p.at, 1)
}

// do executes a statement, beside the proxy.
func (p *postgres) do(statement string) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.server.URL())
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(p.t.Context(), statement); err != nil {
		p.t.Fatal(err)
	}
}

// disconnect ends all connections but its own.
func (p *postgres) disconnect() {
	p.t.Helper()
	p.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
}

// onPostgres makes a world with a database on a server of its own, in which
// commands are sent and the service acks some.
func onPostgres(t *testing.T) (*world, *postgres) {
	t.Helper()
	takesLong(t)
	p := newPostgres(t)
	return open(t, p.environ()), p
}

// nothingAcked fails the test if the service acked, before a given time, a command
// that was sent after another one: between the two there was nowhere to put it.
func (w *world) nothingAcked(from, to time.Time) {
	w.Helper()
	early := 0
	w.eachAcked(func(s history.Sent, at time.Time) {
		if s.SentAt.After(from) && at.Before(to) {
			early++
		}
	})
	if early > 0 {
		w.Errorf("%d commands were acked that could not be stored", early)
	}
	if sent := w.sentSince(from); sent == 0 {
		w.Error("no command was sent meanwhile: nothing is proven")
	}
}

// awaitTime waits until so much time has gone by since a time.
func awaitTime(t *testing.T, since time.Time, d time.Duration) {
	t.Helper()
	await(t, "the time to go by", d+time.Minute, func() bool { return time.Since(since) > d })
}

// downFor is how long a database is down.
const downFor = 5 * time.Second

// TestDatabaseServerIsKilledUnderLoad has the server of the database die, and
// come back: meanwhile no command is acked, afterwards all go on by themselves.
func TestDatabaseServerIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	w, p := onPostgres(t)
	for range 2 {
		p.server.Kill()
		down := time.Now()
		awaitTime(t, down, downFor)
		back := time.Now()
		p.start()
		started := time.Now()
		w.nothingAcked(down, back)
		w.goesOn(100)
		t.Logf("down for %v, goes on %v after it accepts clients", started.Sub(down), time.Since(started))
	}
	w.settle(90 * time.Second)
	w.service.stop()
}

// TestConnectionsWithTheDatabaseEnd has the server end all connections, again
// and again.
func TestConnectionsWithTheDatabaseEnd(t *testing.T) {
	t.Parallel()
	w, p := onPostgres(t)
	for range 10 {
		p.disconnect()
		w.goesOn(20)
	}
	w.settle(90 * time.Second)
	w.service.stop()
}

// TestConnectionWithTheDatabaseIsHalfOpen drops bytes without closing the connection,
// between the service and the database, in one direction or both.
func TestConnectionWithTheDatabaseIsHalfOpen(t *testing.T) {
	t.Parallel()
	takesLong(t)
	for name, dropped := range map[string][]proxy.Direction{
		"both directions": {proxy.ToServer, proxy.ToClient},
		"to the database": {proxy.ToServer},
		"to the service":  {proxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := onPostgres(t)
			p.proxy.Drop(dropped...)
			p.proxy.Pass() // new connections work, those that lost something stay dead
			began := time.Now()
			w.goesOn(100)
			t.Logf("goes on after %v", time.Since(began))
			w.settle(90 * time.Second)
			w.service.stop()
		})
	}
}

// TestDatabaseIsSilent has nothing of what the service sends arrive at the
// database, for a while, whatever connections it makes.
func TestDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	w, p := onPostgres(t)
	before := w.service.measure()
	p.proxy.Drop(proxy.ToServer)
	silent := time.Now()
	awaitTime(t, silent, 20*time.Second)
	during := w.service.measure()
	resumed := time.Now()
	p.proxy.Pass()
	w.nothingAcked(silent, resumed)
	w.goesOn(100)
	t.Logf("silent for %v, goes on %v after it", resumed.Sub(silent), time.Since(resumed))
	w.settle(90 * time.Second)
	after := w.service.measure()
	t.Logf("goroutines and bytes of heap: before %v, while silent %v, after %v", before, during, after)
	if after.goroutines > before.goroutines+moreGoroutines || max(during.heap, after.heap) > before.heap+moreHeap {
		t.Errorf("grew from %v to %v and %v", before, during, after) // commands on hold are goroutines, as many as the broker hands out
	}
	w.service.stop()
}

// TestDatabaseBecomesReadOnly has the server come back as a standby, which reads
// and does not write, until it is promoted. Connections outlive that.
func TestDatabaseBecomesReadOnly(t *testing.T) {
	t.Parallel()
	w, p := onPostgres(t)
	p.server.Kill()
	if err := p.server.Demote(); err != nil {
		t.Fatal(err)
	}
	readOnly := time.Now()
	p.start()
	w.service.says("during recovery", readOnly, time.Minute)
	awaitTime(t, time.Now(), downFor)
	back := time.Now()
	p.do("SELECT pg_promote()")
	w.nothingAcked(readOnly, back)
	w.goesOn(100)
	t.Logf("read-only for %v, goes on %v after it can be written again", back.Sub(readOnly), time.Since(back))
	w.settle(90 * time.Second)
	w.service.stop()
}

// TestDatabaseIsDownAtTheStart starts the service before the server of its
// database: it waits, takes no commands, and can be stopped.
func TestDatabaseIsDownAtTheStart(t *testing.T) {
	t.Parallel()
	takesLong(t)
	p := newPostgres(t)
	p.server.Stop()
	w := newWorld(t)
	w.startBroker()
	w.environ = []string{p.environ(), "TIMER_BROKER_URL=" + w.broker.URL()}

	w.service = start(t, "service", w.environ...)
	w.service.says("waiting for the database", time.Time{}, time.Minute)
	asked := time.Now()
	w.service.signal(syscall.SIGTERM)
	w.service.ends(30 * time.Second)
	t.Logf("stopped while it waited, it ended after %v with exit code %d", time.Since(asked), w.service.cmd.ProcessState.ExitCode())

	w.service = start(t, "service", w.environ...)
	w.service.says("waiting for the database", time.Time{}, time.Minute)
	if line, ready := w.service.find("ready ", time.Time{}); ready {
		t.Errorf("it says %q without a database", line.text)
	}
	p.start()
	up := time.Now()
	w.service.says("ready ", time.Time{}, time.Minute)
	t.Logf("ready %v after the database", time.Since(up))
	w.connect(w.broker.URL())
	w.begin()
	w.settle(90 * time.Second)
	w.service.stop()
}
