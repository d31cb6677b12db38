package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeWithATestClock has the service of a test next to a database that is not its own, whose
// path it has.
func TestServeWithATestClock(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "timers.db")
	p := startIn(t, []string{"TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_NATS_PORT=0", "TIMER_DB_PATH=" + db}, "main", "serve", "--test-clock")
	if said := p.announces(t, "test"); !strings.HasPrefix(said, "TEST CLOCK: ") {
		t.Error(said)
	}
	if p.prints(t, "store "); !strings.HasSuffix(p.lines.Text(), ", relaxed") {
		t.Errorf("%s: the database that is deleted is synced", p.lines.Text())
	}
	server := p.announces(t, "http")
	p.prints(t, "ready")
	environ := []string{"TIMER_DB_PATH=" + db}
	verb := func(args ...string) ran { return do(t, environ, append(args, "--server", server)...).wants(t, exitOK) }

	began, err := time.Parse(time.RFC3339, decode(t, verb("clock", "show", "-o", "json").stdout)["now"].(string))
	must(t, err)
	verb("schedule", "acme", "order-1", "--at", began.Add(2*time.Hour).Format(time.RFC3339Nano))
	verb("schedule", "acme", "order-2", "--in", "3h")
	moved := verb("clock", "advance", "--by", "150m", "-o", "json").stdout
	if !strings.Contains(moved, `"reached":1,"expired":0,"published":1`) {
		t.Error(moved)
	}
	do(t, environ, "clock", "advance", "--by", "1h", "--to", "2030-01-01T00:00:00Z", "--server", server).wants(t, exitUsage)
	do(t, environ, "clock", "advance", "--to", began.Format(time.RFC3339), "--server", server).wants(t, exitUsage).says(t, "never goes back")
	verb("clock", "advance", "--to", began.Add(3*time.Hour).Format(time.RFC3339Nano)).prints(t, "reached        1\n")
	for _, path := range []string{"/", "/readyz?verbose"} {
		answer, err := http.Get(server + path)
		must(t, err)
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "TEST CLOCK") {
			t.Errorf("%s does not say so: %v", path, err)
		}
	}
	if _, err := os.Stat(db); err == nil {
		t.Error("it has made the database of db_path")
	}
	p.signal(t, syscall.SIGTERM)
	p.ends(t)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(db), "*")); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}

// TestATimeThatIsRealIsNotAdvanced asks a service without a test clock.
func TestATimeThatIsRealIsNotAdvanced(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	do(t, nil, "clock", "advance", "--by", "1h", "--server", server).wants(t, exitFailure).says(t, "serve --test-clock")
	do(t, nil, "clock", "show", "--server", server).wants(t, exitOK).prints(t, "test clock     false")
	do(t, []string{"TIMER_DB_URL=postgres://nowhere/timers?sslmode=disable"}, "serve", "--test-clock").wants(t, exitFailure).says(t, "remove db_url")
}
