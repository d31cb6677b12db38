package faults_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// newPostgres starts a PostgreSQL server of a test's own, and returns a proxy through which
// the service reaches it, and the setting that names that.
func newPostgres(t *testing.T) (*proxy.Proxy, string) {
	t.Helper()
	server, err := postgresd.Start(t.Context(), t.TempDir(), harness.Port(t))
	harness.Need(t, err)
	t.Cleanup(server.Kill)
	p, at := proxied(t, server.URL())
	return p, "TIMER_DB_URL=" + at
}

// TestDatabaseIsSilent has nothing of what the service sends arrive at the
// database, for a while, whatever connections it makes.
func TestDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	takesLong(t)
	p, setting := newPostgres(t)
	w := open(t, setting)
	before := w.service.measure()
	p.Drop(proxy.ToServer)
	silent := time.Now()
	awaitTime(t, silent, 20*time.Second)
	during := w.service.measure()
	resumed := time.Now()
	p.Pass()
	w.nothingAcked(silent, resumed)
	w.goesOn(100)
	t.Logf("silent for %v, goes on %v after it", resumed.Sub(silent), time.Since(resumed))
	w.settle(90 * time.Second)
	during.goroutines = before.goroutines // commands on hold are goroutines, as many as the broker hands out
	grew(t, before, during, w.service.measure())
	w.service.stop()
}

// TestFrozenInstanceDelaysNobody has two instances share a database, of which one
// is stopped for a minute. What it had comes to the other one within the ack wait,
// and so does what the broker sends it until its requests expire.
func TestFrozenInstanceDelaysNobody(t *testing.T) {
	t.Parallel()
	takesLong(t)
	const frozen, atMost = time.Minute, 10 * time.Second
	_, setting := newPostgres(t)
	w := open(t, setting)
	other := serve(t, w.service.environ...)
	w.goesOn(100)
	other.signal(syscall.SIGSTOP)
	awaitTime(t, time.Now(), frozen)
	other.signal(syscall.SIGCONT)
	w.goesOn(100)
	if late := w.settle(2 * time.Minute).Overall; late.MaxMS > float64(atMost.Milliseconds()) {
		t.Errorf("timers were late up to %v ms, want at most %v", late.MaxMS, atMost)
	}
	other.stop()
	w.service.stop()
}
