package faults_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// newPostgres starts a PostgreSQL server of a test's own, and returns a proxy through which
// the service reaches it, and the setting that names that.
func newPostgres(t *testing.T) (*proxy.Proxy, string) {
	t.Helper()
	port, err := freeport.Find(t.Context())
	check(t, err)
	server, err := postgresd.Start(t.Context(), t.TempDir(), port)
	if errors.Is(err, postgresd.ErrNotInstalled) {
		missing(t, "%v", err)
	}
	check(t, err)
	t.Cleanup(server.Kill)
	p, at := proxied(t, server.Address())
	return p, fmt.Sprintf("TIMER_DB_URL=postgres://postgres@%s/postgres?sslmode=disable", at)
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

// TestServerIsSetReadOnly sets a server read-only, as a person does with an old primary after a
// failover, and takes that back. Nothing is accepted and nothing fires meanwhile.
func TestServerIsSetReadOnly(t *testing.T) {
	t.Parallel()
	takesLong(t)
	_, setting := newPostgres(t)
	w := open(t, setting)
	_, url, _ := strings.Cut(setting, "=")
	db, err := sql.Open("pgx", url)
	check(t, err)
	defer db.Close()
	fired := func() (n int) {
		check(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules WHERE state = 'Reached'`).Scan(&n))
		return n
	}
	set := func(how string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), `ALTER SYSTEM `+how)
		check(t, err)
		_, err = db.ExecContext(t.Context(), `SELECT pg_reload_conf()`)
		check(t, err)
	}
	harmed := time.Now()
	set(`SET default_transaction_read_only = on`)
	took, _ := w.service.awaitRed("store")
	w.service.says("the database is set read-only", harmed, seenIn)
	began, before := time.Now(), fired()
	awaitTime(t, began, 10*time.Second)
	ended := time.Now()
	if n := fired() - before; n > 0 {
		t.Errorf("%d timers fired", n)
	}
	w.nothingAcked(began, ended)
	set(`RESET default_transaction_read_only`)
	w.goesOn(100)
	t.Logf("red after %v", took)
	w.settle(90 * time.Second)
	w.service.stop()
}
