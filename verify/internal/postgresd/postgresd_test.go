package postgresd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// start starts a server, or skips the test if there is none on this machine.
func start(t *testing.T, dir string, opt postgresd.Options) *postgresd.Server {
	t.Helper()
	s, err := postgresd.Start(t.Context(), dir, opt)
	if errors.Is(err, postgresd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
		t.Skip("SKIPPED, NOTHING IS PROVEN: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func port(t *testing.T) int {
	t.Helper()
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestServerStartsAgainWhereItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL three times, which takes a while: not with -short")
	}
	t.Parallel()
	dir, opt := t.TempDir(), postgresd.Options{Port: port(t)}
	s := start(t, dir, opt)
	if _, err := connect(t, s.URL()).Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for n, end := range []func(*postgresd.Server){(*postgresd.Server).Kill, (*postgresd.Server).Stop} {
		conn := connect(t, s.URL())
		if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES ($1)", n); err != nil {
			t.Fatal(err)
		}
		end(s)
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a connection outlives its server")
		}
		if conn, err := pgx.Connect(t.Context(), s.URL()); err == nil {
			conn.Close(t.Context())
			t.Error("it still accepts clients")
		}
		end(s) // again, which does nothing
		s = start(t, dir, opt)
		var rows int
		if err := connect(t, s.URL()).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil || rows != n+1 {
			t.Errorf("%d rows are there after %d were committed: %v", rows, n+1, err)
		}
	}
}

// A child that goes on after the server was killed would go on with the work of
// a client for as long as a statement takes.
func TestKillLeavesNoChild(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL, which takes a while: not with -short")
	}
	t.Parallel()
	s := start(t, t.TempDir(), postgresd.Options{Port: port(t)})
	conn := connect(t, s.URL())
	slept := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)")
		slept <- err
	}()
	watcher := connect(t, s.URL())
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for sleeping := 0; sleeping == 0; <-tick.C {
		if err := watcher.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").Scan(&sleeping); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	if err := <-slept; err == nil {
		t.Error("the statement came to its end")
	}
	if _, err := os.Stat(filepath.Join("/proc", "self")); err != nil {
		t.Skip("no /proc here, so child processes cannot be listed")
	}
	if left := postgresd.In(t, s); len(left) > 0 {
		t.Errorf("these outlive their server: %q", left)
	}
}

func TestStandbyIsPromoted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL twice, which takes a while: not with -short")
	}
	t.Parallel()
	dir, opt := t.TempDir(), postgresd.Options{Port: port(t)}
	s := start(t, dir, opt)
	s.Kill()
	if err := s.Demote(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir, opt)
	conn := connect(t, s.URL())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a standby that writes: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Error(err)
	}
}

func TestServerHasASocketAndTakesSettings(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL, which takes a while: not with -short")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "pgd-") // that of the test may be too deep for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := start(t, dir, postgresd.Options{Port: port(t), Settings: map[string]string{"work_mem": "5MB"}})
	if s.SocketDir() == "" {
		t.Fatal("it has no socket")
	}
	conn := connect(t, s.URL()+"&host="+s.SocketDir())
	var memory string
	if err := conn.QueryRow(t.Context(), "SHOW work_mem").Scan(&memory); err != nil || memory != "5MB" {
		t.Errorf("work_mem is %q, want 5MB: %v", memory, err)
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL, which takes a while: not with -short")
	}
	t.Parallel()
	dir, opt := t.TempDir(), postgresd.Options{Port: port(t)}
	start(t, dir, opt).Stop()
	opt.Settings = map[string]string{"work_mem": "much"}
	if s, err := postgresd.Start(t.Context(), dir, opt); err == nil {
		s.Kill()
		t.Error("it starts with a setting that makes no sense")
	} else if got := err.Error(); !strings.Contains(got, "work_mem") {
		t.Errorf("the error does not say why: %v", got)
	}
}
