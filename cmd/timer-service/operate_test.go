package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestPause pauses firing of all tenants and of one, and resumes it.
func TestPause(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	do(t, environ, "pause").wants(t, exitOK).prints(t, "firing is paused since 20")
	do(t, environ, "stats", "-o", "json").wants(t, exitOK).prints(t, `"firing":{"paused":true,"since":"20`)
	do(t, environ, "pause", "acme", "--until", "2h").wants(t, exitOK).prints(t, "firing of acme is paused since 20").prints(t, "from now)")
	do(t, environ, "stats", "acme").wants(t, exitOK).prints(t, "paused since 20")
	do(t, environ, "resume").wants(t, exitOK).prints(t, "timers of all other tenants fire").prints(t, "firing of acme is paused since 20")
	do(t, environ, "pause", "acme", "--until", "2000-01-01T00:00:00Z").wants(t, exitUsage).says(t, "is over")
	do(t, environ, "pause", "acme", "--until", "soon").wants(t, exitUsage).says(t, "2030-01-31T12:00:00Z")
	do(t, environ, "resume", "acme").wants(t, exitOK).prints(t, "timers fire\n")
	do(t, environ, "quotas", "show").wants(t, exitOK).says(t, "quotas_file is not set")
	do(t, environ, "pause", "nosuch").wants(t, exitOK).says(t, "the tenant nosuch has no timers")
	do(t, environ, "resume", "nosuch").wants(t, exitOK).says(t, "the tenant nosuch has no timers")
}

// TestDryRunOfARecoveryMakesNothing where a file was moved away: a new one would take its log.
func TestDryRunOfARecoveryMakesNothing(t *testing.T) {
	t.Parallel()
	path := populated(t)
	must(t, errors.Join(os.Rename(path, path+".away"), os.WriteFile(path+"-wal", []byte("a log"), 0o600)))
	do(t, []string{"TIMER_NATS_PORT=0"}, "recover", "--dry-run", "--db-path", path).wants(t, exitFailure).says(t, "a start with a new database reads all")
	_, err := os.Stat(path)
	if text, _ := os.ReadFile(path + "-wal"); !errors.Is(err, os.ErrNotExist) || string(text) != "a log" {
		t.Errorf("the file: %v, its log is %q", err, text)
	}
}

// TestFiringTextSaysWhatDoesNotWork, and that timers fire only while all works.
func TestFiringTextSaysWhatDoesNotWork(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{"paused":false}`: "timers fire",
		`{"paused":false,"notReady":["broker: connection refused"]}`: "the service is not ready: timers may not fire, or their events wait\nnot ready: broker: connection refused",
	} {
		if got := forms["firing"](row); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}

// readOnly starts a service that takes no changes over HTTP, and returns where it answers.
func readOnly(t *testing.T) string {
	t.Helper()
	server, _ := answering(t, "TIMER_HTTP_READ_ONLY=true")
	return server
}

const insertParked = `INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
	VALUES (?1, ?2, CAST('{}' AS BLOB), '{"tenantId":"acme","serviceCallId":"a"}', 1000, 3, 'maximum payload exceeded', 2000)`

// TestParkedEvents has two, of which one is retried and the other one discarded.
func TestParkedEvents(t *testing.T) {
	t.Parallel()
	server, atBroker := answering(t)
	park(t, strings.TrimPrefix(atBroker[0], "TIMER_DB_PATH="), "17", "18")
	environ := []string{"TIMER_SERVER=" + server}
	do(t, environ, "parked", "list").wants(t, exitOK).prints(t, "maximum payload exceeded").prints(t, "18")
	if got := do(t, environ, "parked", "list", "-o", "json").wants(t, exitOK).stdout; strings.Count(got, "\n") != 2 || strings.Contains(got, `"body"`) {
		t.Errorf("parked list prints %q, want two lines without bodies", got)
	}
	do(t, environ, "parked", "show", "18").wants(t, exitOK).prints(t, "event-18").prints(t, "attempts       3")
	do(t, environ, "parked", "retry", "17", "99").wants(t, exitNotFound).prints(t, "retried    17").says(t, "99")
	do(t, environ, "parked", "discard", "18", "-o", "json").wants(t, exitOK).prints(t, `{"result":"discarded","seq":18}`)
	do(t, environ, "parked", "list").wants(t, exitOK).says(t, "no parked events")
	park(t, strings.TrimPrefix(atBroker[0], "TIMER_DB_PATH="), "19", "20")
	for _, none := range [][]string{{"--tenant", "other"}, {"--reason", "not found"}, {"--since", "1h"}, {"--correlation", "req-7"}} { // each was parked in 1970
		if got := do(t, environ, append([]string{"parked", "discard", "--all"}, none...)...).wants(t, exitOK).stdout; got != "" {
			t.Errorf("%q selects %s", none, got)
		}
	}
	do(t, environ, "parked", "list", "--reason", "MAXIMUM payload").wants(t, exitOK).prints(t, "19").prints(t, "20")
	do(t, environ, "parked", "retry", "--all").wants(t, exitOK).prints(t, "retried    19").prints(t, "retried    20")
	park(t, strings.TrimPrefix(atBroker[0], "TIMER_DB_PATH="), "21", "22")
	do(t, environ, "parked", "discard", "--all", "--reason", "payload").wants(t, exitOK).prints(t, "discarded  21").prints(t, "discarded  22")
	for _, args := range [][]string{{}, {"17", "--all"}, {"17", "--tenant", "acme"}, {"17", "--reason", "x"}} {
		for _, verb := range []string{"retry", "discard"} {
			do(t, environ, append([]string{"parked", verb}, args...)...).wants(t, exitUsage)
		}
	}
}

// TestRefire publishes the events of two tenants again, and counts them before.
func TestRefire(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	remote := []string{"TIMER_SERVER=" + server}
	for _, line := range []string{"schedule acme a-1 --in 0 --until-fired", "schedule acme b-1 --in 0 --until-fired", "schedule beta a-1 --in 0 --until-fired", "schedule acme a-2 --in 1h"} {
		do(t, remote, strings.Fields(line)...).wants(t, exitOK)
	}
	do(t, remote, "refire", "--since", "1h", "--dry-run").wants(t, exitOK).prints(t, "events to publish again: 3\n    acme/a-1  reached at 20").prints(t, "complete from 20")
	do(t, remote, "refire", "acme", "--since", "1h", "--prefix", "a-").wants(t, exitOK).prints(t, "events published again: 1\n    acme/a-1")
	do(t, remote, "refire", "--since", "2020-01-31T12:00:00Z", "-o", "json").wants(t, exitOK).prints(t, `{"dryRun":false,"events":3,"first":[{`)
	do(t, remote, "refire", "--since", "2099-01-31T12:00:00Z").wants(t, exitUsage).says(t, "since is not before until and now")
	do(t, remote, "refire").wants(t, exitUsage).says(t, "--since")
	do(t, remote, "refire", "--since", "soon").wants(t, exitUsage).says(t, "such as 90m or 7d")
}

// TestForgetTenant deletes timers in each state and their parked events, and asks first.
func TestForgetTenant(t *testing.T) {
	t.Parallel()
	server, atBroker := answering(t)
	remote := []string{"TIMER_SERVER=" + server}
	for _, line := range []string{"schedule acme a --in 0 --until-fired", "schedule acme c --in 1h", "schedule beta a --in 0 --until-fired", "cancel acme b --wait", "cancel acme gone --wait"} {
		do(t, remote, strings.Fields(line)...).wants(t, exitOK)
	}
	park(t, strings.TrimPrefix(atBroker[0], "TIMER_DB_PATH="), "17")
	for input, want := range map[string]bool{" acme \r\n": true, "ACME\n": false, "": false} {
		var out strings.Builder
		if err := confirm(strings.NewReader(input), &out, "acme", 1200); (err == nil) != want || !strings.Contains(out.String(), "all timers of acme: 1200.") {
			t.Errorf("%q: %v after %q", input, err, out.String())
		}
	}
	p := prepare(t, remote, "main", "tenants", "forget", "acme")
	p.Stdin = strings.NewReader("acme\n")
	must(t, p.Start())
	p.ends(t).wants(t, exitUsage).says(t, "give --yes")
	denied := do(t, []string{"TIMER_SERVER=" + readOnly(t)}, "tenants", "forget", "acme", "--yes").wants(t, exitFailure).says(t, "http_read_only")
	if strings.Contains(denied.stderr, "run it again") || denied.stdout != "" { // a denial stays
		t.Errorf("denied: %s%s", denied.stdout, denied.stderr)
	}
	do(t, remote, "tenants", "forget", "acme", "--yes").wants(t, exitOK).prints(t, "deleted of acme: 1 scheduled, 1 reached, 0 expired, 2 canceled")
	do(t, remote, "list", "acme").wants(t, exitOK).says(t, "no timers")
	do(t, remote, "parked", "list").wants(t, exitOK).says(t, "no parked events")
	do(t, remote, "get", "beta", "a").wants(t, exitOK)
}
