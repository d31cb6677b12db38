package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// answering starts a service, and returns where it answers HTTP, and the environment of
// verbs that read its database.
func answering(t *testing.T, environ ...string) (server string, database []string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "timers.db")
	p := startIn(t, append([]string{"TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_NATS_PORT=0", "TIMER_DB_PATH=" + db}, environ...), "main", "serve")
	for p.lines.Scan() {
		if text, found := strings.CutPrefix(p.lines.Text(), "http "); found {
			server, _, _ = strings.Cut(strings.TrimSpace(text), ",")
		}
		if strings.HasPrefix(p.lines.Text(), "ready") {
			break
		}
	}
	return server, []string{"TIMER_DB_PATH=" + db, "TIMER_HTTP_ADDR="}
}

// untilNow are times that go on between two runs.
var untilNow = regexp.MustCompile(`(in )?[\d.]+ (ms|s|min|h|d)( ago)?|now`)

// counted is what only a service knows, once it has counted.
var counted = regexp.MustCompile(`(?m)^unprotected .*\n|,"unprotected":\{.*?\}`)

// TestSameAnswerFromServiceAndDatabase runs the verbs that read, through HTTP and on the
// database.
func TestSameAnswerFromServiceAndDatabase(t *testing.T) {
	t.Parallel()
	server, database := answering(t)
	for _, args := range [][]string{
		{"schedule", "acme", "a", "--at", "2027-01-31T12:00:00Z", "--correlation", "r", "--data", `{"a":1}`},
		{"schedule", "acme", "b", "--in", "0", "--wait"},
		{"schedule", "other", "c", "--at", "2028-01-31T12:00:00Z", "--correlation", "r"},
		{"schedule", "acme", "d", "--in", "0", "--wait"},
		{"schedule", "dots", "..", "--at", "2028-01-31T12:00:00Z"},
	} {
		do(t, database, args...).wants(t, exitOK)
	}
	do(t, database, "cancel", "other", "gone", "--wait").wants(t, exitOK)
	for _, line := range []string{
		"get acme a", "get acme a --data", "get acme b", "list acme", "list acme --limit 1", "list acme --state Reached", "list acme --after a", "list --correlation r",
		"list --due-within 1000d", "list --due-within 1000d --limit 1", "stats", "stats acme", "stats --tenants", "stats --tenants --limit 1", "get acme nowhere", "get dots ..", "parked list a:b", "parked list --after=-1", "list nobody", "list --due-within 1h --after nonsense",
	} {
		for _, form := range []string{"text", "json"} {
			args := append(strings.Fields(line), "-o", form)
			want, got := do(t, database, args...), do(t, []string{"TIMER_SERVER=" + server, "TIMER_DB_PATH=/nowhere/timers.db"}, args...)
			got.stdout = counted.ReplaceAllString(got.stdout, "")
			if form == "text" {
				want.stdout, got.stdout = untilNow.ReplaceAllString(want.stdout, "T"), untilNow.ReplaceAllString(got.stdout, "T")
			}
			if got != want {
				t.Errorf("%q:\nthe service %d: %s%s\nthe database %d: %s%s", args, got.code, got.stdout, got.stderr, want.code, want.stdout, want.stderr)
			}
		}
	}
	do(t, []string{"TIMER_SERVER=http://127.0.0.1:1"}, "stats").wants(t, exitFailure).says(t, "does not answer over HTTP").says(t, "health --server")
}

// TestServiceOnThisMachine asks http_addr only if the service there serves this database.
func TestServiceOnThisMachine(t *testing.T) {
	t.Parallel()
	server, database := answering(t)
	do(t, database, "schedule", "acme", "a", "--in", "1h").wants(t, exitOK)
	addr := "TIMER_HTTP_ADDR=" + strings.TrimPrefix(server, "http://")
	db := strings.TrimPrefix(database[0], "TIMER_DB_PATH=")
	e := func(environ ...string) ran { return do(t, append(environ, addr), "list", "acme") }
	other := filepath.Join(t.TempDir(), "timers.db")
	do(t, []string{"TIMER_DB_PATH=" + other}, "migrate").wants(t, exitOK)
	if got := e("TIMER_DB_PATH="+other).wants(t, exitOK); got.stdout != "" {
		t.Errorf("another service's timers show:\n%s", got.stdout)
	}
	hidden := db + ".hidden" // with a second name the file is refused: only the service can answer
	if err := os.Link(db, hidden); err != nil {
		t.Fatal(err)
	}
	for e("TIMER_DB_PATH="+db).code != exitOK { // it may not have stored it yet
	}
	e("TIMER_DB_PATH="+db).wants(t, exitOK).prints(t, "Scheduled")
	if err := os.Remove(hidden); err != nil {
		t.Fatal(err)
	}
}

// TestTokenOfTheService needs one, from the environment or a file.
func TestTokenOfTheService(t *testing.T) {
	t.Parallel()
	server, database := answering(t, "TIMER_HTTP_TOKEN=hunter2")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, nil, "stats", "--server", server).wants(t, exitFailure).says(t, "without a token").says(t, "--token-file")
	do(t, []string{"TIMER_HTTP_TOKEN=hunter3"}, "stats", "--server", server).wants(t, exitFailure).says(t, "the token is wrong").says(t, "--token-file")
	do(t, []string{"TIMER_HTTP_TOKEN=hunter2"}, "stats", "--server", server).wants(t, exitOK)
	do(t, nil, "stats", "--server", server, "--token-file", token).wants(t, exitOK)
	do(t, nil, "stats", "--server", server, "--token-file", "/nowhere").wants(t, exitUsage).says(t, "--token-file")

	// A service that denies is one: none has to be started or stopped.
	here := append(database, "TIMER_HTTP_ADDR="+strings.TrimPrefix(server, "http://"))
	do(t, here, "stats").wants(t, exitOK)
	for _, verb := range [][]string{{"firing", "pause"}, {"quotas", "show"}, {"top", "--once"}} {
		do(t, here, verb...).wants(t, exitFailure).says(t, "--token-file")
		do(t, here, append(verb, "--token-file", token)...).wants(t, exitOK)
	}
}

// TestURLWithoutAPI is not taken for a service that has no such timer.
func TestURLWithoutAPI(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	for _, verb := range [][]string{{"get", "acme", "a"}, {"stats"}, {"parked", "show", "1"}} {
		do(t, nil, append(verb, "--server", server+"/timers")...).wants(t, exitFailure).says(t, "http_prefix")
	}
}
