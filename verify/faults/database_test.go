package faults_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// A postgres is a PostgreSQL server of a test's own, and a proxy through which
// the service reaches it.
type postgres struct {
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
	p := new(postgres)
	if p.server, err = postgresd.Start(t.Context(), t.TempDir(), port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.server.Kill)
	p.proxy = proxy.New(proxy.TCP(p.server.Address()))
	if p.at, err = p.proxy.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.proxy.Close() })
	return p
}

// environ names the database to the service.
func (p *postgres) environ() string {
	return "TIMER_DB_URL=" + strings.Replace(p.server.URL(), p.server.Address(), p.at, 1)
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
