package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// answering starts a service, and returns where it answers HTTP, and the environment of
// verbs that ask it by its socket.
func answering(t *testing.T, environ ...string) (server string, local []string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "timers.db")
	p := startIn(t, append([]string{"TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_NATS_PORT=0", "TIMER_DB_PATH=" + db}, environ...), "main", "serve")
	server = p.announces(t, "http")
	p.prints(t, "ready")
	return server, []string{"TIMER_DB_PATH=" + db}
}

// untilNow are times that go on between two runs.
var untilNow = regexp.MustCompile(`[\d.]+ (ms|second|minute|hour|day|week|month|year)s?( ago| from now)?|now`)

// counted is what only a service knows, once it has counted.
var counted = regexp.MustCompile(`(?m)^unprotected .*\n|,"unprotected":\{.*?\}`)

// TestSameAnswerFromServiceAndDatabase runs the verbs that read, through HTTP and on the
// database.
func TestSameAnswerFromServiceAndDatabase(t *testing.T) {
	t.Parallel()
	server, local := answering(t)
	database := append(local, "TIMER_HTTP_SOCKET=/nowhere/timers.sock")
	for _, args := range [][]string{
		{"schedule", "acme", "a", "--at", "2027-01-31T12:00:00Z", "--correlation", "r", "--data", `{"a":1}`},
		{"schedule", "acme", "b", "--in", "0", "--until-fired"},
		{"schedule", "other", "c", "--at", "2028-01-31T12:00:00Z", "--correlation", "r"},
		{"schedule", "acme", "d", "--in", "0", "--until-fired"},
		{"schedule", "dots", "...", "--at", "2028-01-31T12:00:00Z"},
	} {
		do(t, local, args...).wants(t, exitOK)
	}
	do(t, local, "cancel", "other", "gone", "--wait").wants(t, exitOK)
	for _, line := range []string{
		"get acme a", "get acme a --data", "get acme b", "list acme", "list acme --limit 1", "list acme --state Reached", "list acme --after a", "list --correlation r",
		"list --due-within 1000d", "list --due-within 1000d --limit 1", "stats", "stats acme", "stats nobody", "stats --tenants", "stats --tenants --limit 1", "get acme nowhere", "get dots ...", "parked list a:b", "parked list --after=-1", "list nobody", "list --due-within 1h --after nonsense",
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
	do(t, []string{"TIMER_SERVER=http://127.0.0.1:1"}, "stats").wants(t, exitFailure).says(t, `does not answer over HTTP: Get "http://127.0.0.1:1/v1/stats"`).says(t, "health --server")
}

// TestVerbsOnPostgresAskTheServiceFirst: the database of these verbs does not answer, but the service
// on the address for HTTP does. Another program there is no service.
func TestVerbsOnPostgresAskTheServiceFirst(t *testing.T) {
	t.Parallel()
	server, local := answering(t)
	do(t, local, "schedule", "acme", "a", "--in", "1h", "--wait").wants(t, exitOK)
	environ := []string{"TIMER_DB_URL=postgres://127.0.0.1:1/none?sslmode=disable", "TIMER_HTTP_ADDR=" + strings.TrimPrefix(server, "http://")}
	for _, line := range []string{"get acme a", "list acme", "stats", "stats acme", "parked list"} {
		do(t, environ, strings.Fields(line)...).wants(t, exitOK)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	environ[1] = "TIMER_HTTP_ADDR=" + strings.TrimPrefix(other.URL, "http://")
	do(t, environ, "stats").wants(t, exitFailure).says(t, `"timer-service doctor" looks for the cause.`)
}

// TestServiceOnThisMachine is asked by the socket next to its database, which only its user
// may open, also if it was killed before, and without an address for HTTP.
func TestServiceOnThisMachine(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "timers.db")
	environ := []string{"TIMER_DB_PATH=" + db, "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR=", "TIMER_HTTP_PREFIX=/timers"}
	killed := startIn(t, environ, "main", "serve")
	killed.prints(t, "ready")
	if info, err := os.Stat(db + ".sock"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a socket of mode 0600", info, err)
	}
	killed.signal(t, os.Kill)
	killed.ends(t)
	do(t, environ, "pause").wants(t, exitFailure).says(t, "start one, or name one with --server")
	p := startIn(t, environ, "main", "serve")
	p.prints(t, "ready")
	do(t, environ, "pause").wants(t, exitOK)
	do(t, []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db")}, "pause").wants(t, exitFailure)
	p.signal(t, os.Interrupt)
	p.ends(t).wants(t, exitOK)
	if _, err := os.Stat(db + ".sock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	// A file that is no socket stays.
	file := fileOf(t, "mine")
	p = startIn(t, append(environ, "TIMER_HTTP_SOCKET="+file), "main", "serve")
	p.prints(t, "ready")
	p.signal(t, os.Interrupt)
	p.ends(t).says(t, "set http_socket to a path where a socket can be")
	if text, err := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

// TestOperatorOfTheMachineMayPauseWhatIsReadOnly asks by the socket what HTTP refuses.
func TestOperatorOfTheMachineMayPauseWhatIsReadOnly(t *testing.T) {
	t.Parallel()
	server, local := answering(t, "TIMER_HTTP_READ_ONLY=true")
	do(t, nil, "pause", "--server", server).wants(t, exitFailure).says(t, "http_read_only is set")
	do(t, local, "pause").wants(t, exitOK)
	do(t, nil, "stats", "--server", server).wants(t, exitOK).prints(t, "firing is paused")
	do(t, local, "resume").wants(t, exitOK)
	do(t, local, "schedule", "acme", "order-1", "--in", "1h").wants(t, exitOK)

	// A second service takes no socket from one that lives.
	second := startIn(t, append(local[:0:0], "TIMER_DB_PATH="+filepath.Join(t.TempDir(), "timers.db"), "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR=", "TIMER_HTTP_SOCKET="+strings.TrimPrefix(local[0], "TIMER_DB_PATH=")+".sock"), "main", "serve")
	second.prints(t, "ready")
	do(t, local, "stats", "-o", "json").wants(t, exitOK).prints(t, `"parked":0`)
	second.signal(t, os.Interrupt)
	second.ends(t).says(t, "another service listens on ")
	do(t, local, "stats", "-o", "json").wants(t, exitOK).prints(t, `"parked":0`)
}

// TestVerbsOfThisMachineNeedNoService, and refuse to be given one.
func TestVerbsOfThisMachineNeedNoService(t *testing.T) {
	t.Parallel()
	for _, verb := range localVerbs {
		args := []string{verb, "--server", "http://timers.example:8080"}
		if strings.Contains("backup export import", verb) {
			args = append(args, "file")
		}
		do(t, nil, args...).wants(t, exitUsage).says(t, "--server names a service that runs, and "+verb+" works on this machine")
	}
}

// TestTokenOfTheService needs one, from the environment or a file.
func TestTokenOfTheService(t *testing.T) {
	t.Parallel()
	server, local := answering(t, "TIMER_HTTP_TOKEN=hunter2", "TIMER_HTTP_TENANT_TOKENS_FILE="+fileOf(t, "acme: token-of-acme-0001"))
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("hunter2\n"), 0o600))
	do(t, nil, "stats", "--server", server).wants(t, exitFailure).says(t, "without a token").says(t, "--token-file")
	do(t, []string{"TIMER_HTTP_TOKEN=hunter3"}, "stats", "--server", server).wants(t, exitFailure).says(t, "the token is wrong").says(t, "--token-file")
	do(t, []string{"TIMER_HTTP_TOKEN=hunter2"}, "stats", "--server", server).wants(t, exitOK)
	do(t, nil, "stats", "--server", server, "--token-file", token).wants(t, exitOK)
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "list", "acme", "--server", server).wants(t, exitOK)
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "list", "globex", "--server", server).wants(t, exitNotFound).says(t, "timer-service: there is nothing of this tenant that your token may see\n")
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "get", "globex", "a", "--server", server).wants(t, exitNotFound).says(t, "timer-service: there is nothing of this tenant that your token may see\n")
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "get", "acme", "a", "--server", server).wants(t, exitNotFound).says(t, "timer acme.a: not found")
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "dlq", "list", "--after", "gone", "--server", server).wants(t, exitNotFound).says(t, "timer-service: the dead letter of after is gone")
	do(t, nil, "stats", "--server", server, "--token-file", "/nowhere").wants(t, exitUsage).says(t, "--token-file")

	// The reasons of health need it, too.
	do(t, append(local, "TIMER_HTTP_TOKEN=hunter2"), "health").wants(t, exitOK).prints(t, "[+] store")
	do(t, nil, "health", "--server", server, "--token-file", token).wants(t, exitOK)
	do(t, nil, "health", "--server", server).wants(t, exitOK)

	for _, verb := range [][]string{{"stats"}, {"pause"}, {"quotas", "show"}} {
		do(t, local, verb...).wants(t, exitFailure).says(t, "--token-file")
		do(t, local, append(verb, "--token-file", token)...).wants(t, exitOK)
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

// TestAnswerThatIsTooLargeIsAnError: of an answer that was cut no row could be printed.
func TestAnswerThatIsTooLargeIsAnError(t *testing.T) {
	t.Parallel()
	spaces := strings.Repeat(" ", 1<<20)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"deadLetters":[{"id":"a"}`)
		for range 65 {
			fmt.Fprint(w, spaces)
		}
		fmt.Fprint(w, `]}`)
	}))
	defer s.Close()
	do(t, nil, "dlq", "list", "-o", "json", "--server", s.URL).wants(t, exitFailure).says(t, "more than 64 MiB", "--limit")
}
