package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// objects reads the output of a verb, one object a line.
func objects(t *testing.T, stdout string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, o)
	}
	return all
}

// commands returns ScheduleTimers of acme, order-1 and so on, due in a while.
func commands(n int, in time.Duration) (lines []string) {
	for i := range n {
		lines = append(lines, string(envelope.Schedule(timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", i+1))},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprint("command-", i+1)},
			DueAt:   time.Now().Add(in), CorrelationID: fmt.Sprint("req-", i+1),
		})))
	}
	return lines
}

// fileOf writes lines to a file and returns its name.
func fileOf(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lines")
	must(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	return name
}

// deadLettersOf publishes lines that the service refuses, and waits until each is a
// dead letter that the broker has stored: a subscriber has it a moment before.
func deadLettersOf(t *testing.T, environ []string, lines ...string) {
	t.Helper()
	before := len(listDeadLetters(t, environ, "--limit", "0"))
	tailed := tailing(t, environ, "dlq", "-n", fmt.Sprint(len(lines)), "-o", "json")
	publishRaw(t, environ, lines...)
	(<-tailed).wants(t, exitOK)
	awaitDeadLetters(t, environ, before+len(lines))
}

// publishRaw publishes lines to the broker of a service, as a guest, whatever they are.
func publishRaw(t *testing.T, environ []string, lines ...string) {
	t.Helper()
	cfg, err := config.Load(nil, environ, "")
	must(t, err)
	url, err := os.ReadFile(strings.TrimSuffix(cfg.DBPath, ".db") + ".nats/url")
	must(t, err)
	guest, err := natsgo.Connect(strings.TrimSpace(string(url)))
	must(t, err)
	defer guest.Close()
	for _, line := range lines {
		if _, err := guest.Request("timer.commands", []byte(line), time.Minute); err != nil { // the stream acks it
			t.Fatal(err)
		}
	}
}

// awaitDeadLetters waits until the broker has stored n dead letters, which tail may
// have had before.
func awaitDeadLetters(t *testing.T, environ []string, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(listDeadLetters(t, environ, "--limit", "0")) < n; {
		if time.Now().After(deadline) {
			t.Fatal("dead letters that tail has had are not stored")
		}
	}
}

// tailing starts tail, waits until it listens, and returns its output when it ends.
func tailing(t *testing.T, environ []string, args ...string) <-chan ran {
	t.Helper()
	p := prepare(t, environ, "main", append([]string{"tail"}, args...)...)
	listening := p.stderr.expects("listening")
	must(t, p.Start())
	ended := make(chan ran, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var stdout strings.Builder
		for p.lines.Scan() {
			stdout.WriteString(p.lines.Text() + "\n")
		}
		_ = p.Wait()
		ended <- ran{p.ProcessState.ExitCode(), stdout.String(), p.stderr.String()}
	}()
	select {
	case <-listening:
	case <-finished:
		t.Fatalf("tail ended: %s", p.stderr.String())
	}
	return ended
}

// listDeadLetters returns the dead letters that dlq list prints, in the order of their
// originals: many are made at once.
func listDeadLetters(t *testing.T, environ []string, args ...string) []map[string]any {
	t.Helper()
	all := objects(t, do(t, environ, append([]string{"dlq", "list", "-o", "json"}, args...)...).wants(t, exitOK).stdout)
	position := func(l map[string]any) int {
		text := l["position"].(string)
		n, err := strconv.Atoi(text[strings.LastIndexByte(text, '/')+1:]) // of Kafka: partition/offset
		must(t, err)
		return n
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return position(a) - position(b) })
	return all
}

func TestDlqListsAndShows(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_HORIZON=1h")
	do(t, environ, "dlq", "list").wants(t, exitOK)
	deadLettersOf(t, environ, append(commands(2, 2*time.Hour), "not \x1b[31mJSON\u202e", "\xff\xfe")...)

	all := listDeadLetters(t, environ)
	if len(all) != 4 {
		t.Fatalf("%d dead letters, want 4", len(all))
	}
	has(t, all[0], map[string]any{"tenantId": "acme", "reason": "beyond_horizon", "topic": "timer.commands", "count": 1., "replays": 0., "originalId": "command-1", "correlationId": "req-1"})
	has(t, all[2], map[string]any{"tenantId": "_", "reason": "not_json", "body": "not \x1b[31mJSON\u202e"})
	has(t, all[3], map[string]any{"reason": "not_utf8", "bodyBase64": "//4="})

	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"--tenant", "acme"}, 2},
		{[]string{"--tenant", "_"}, 2},
		{[]string{"--tenant", "beta"}, 0},
		{[]string{"--reason", "not_json"}, 1},
		{[]string{"--since", "1h"}, 4},
		{[]string{"--since", "2200-01-01T00:00:00Z"}, 0},
		{[]string{"--correlation", "req-2"}, 1},
		{[]string{"--correlation", "req"}, 0},
		{[]string{"--limit", "3"}, 3},
	} {
		if got := listDeadLetters(t, environ, tt.args...); len(got) != tt.want {
			t.Errorf("%q lists %d, want %d", tt.args, len(got), tt.want)
		}
	}

	text := do(t, environ, "dlq", "list").wants(t, exitOK).prints(t, "ID ", "\n"+all[0]["id"].(string)+"  acme    beyond_horizon  ")
	do(t, environ, "dlq", "list", "--limit", "1").wants(t, exitOK).says(t, "there may be more: --after ")
	shown := do(t, environ, "dlq", "show", all[0]["id"].(string), all[2]["id"].(string)).wants(t, exitOK).
		prints(t, "reason         beyond_horizon\n", "original       command-1\n", "\n"+all[0]["body"].(string)+"\n", "in base64", "bm90IBtbMzFtSlNPTuKArg==")
	for _, out := range []string{shown.stdout, text.stdout, do(t, environ, "dlq", "list", "-o", "json").stdout} {
		if strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("terminals would interpret %q", out)
		}
	}
	do(t, environ, "dlq", "show", "unknown").wants(t, exitNotFound).says(t, `"unknown"`, "not found", "dlq list")
}

// A command that is valid now is replayed and handled. One that is not becomes a
// dead letter again, and stays after three replays.
func TestDlqReplays(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"), "TIMER_NATS_PORT=0"}
	stop := serve(t, append(environ, "TIMER_HORIZON=1h"))
	deadLettersOf(t, environ, append(commands(3, 2*time.Hour), `{"tenantId":"acme"}`)...)
	stop()
	serve(t, append(environ, "TIMER_HORIZON=3h"))

	do(t, environ, "dlq", "replay", "--all", "--dry-run").wants(t, exitOK).prints(t, "would be replayed ").says(t, "4 would be replayed\n")
	if got := listDeadLetters(t, environ); len(got) != 4 {
		t.Errorf("after a dry run %d dead letters remain", len(got))
	}
	one := listDeadLetters(t, environ)[0]["id"].(string)
	do(t, environ, "dlq", "replay", one).wants(t, exitOK).prints(t, "replayed   "+one+"  acme  beyond_horizon\n").says(t, "1 replayed\n", "refuses again")
	do(t, environ, "dlq", "replay", one).wants(t, exitNotFound).says(t, "not found")
	for replays, want := range []int{3, 1, 1} {
		tailed := tailing(t, environ, "dlq", "--tenant", "acme", "-n", "1", "-o", "json")
		out := objects(t, do(t, environ, "dlq", "replay", "--tenant", "acme", "-o", "json").wants(t, exitOK).stdout)
		if len(out) != want || out[0]["result"] != "replayed" {
			t.Errorf("replay %d is of %d dead letters, want %d: %v", replays+1, len(out), want, out)
		}
		header := decode(t, (<-tailed).wants(t, exitOK).stdout)["headers"].(map[string]any)
		has(t, header, map[string]any{"deadLetterReplays": fmt.Sprint(replays + 1), "deadLetterCount": fmt.Sprint(replays + 2)})
		awaitDeadLetters(t, environ, 1)
	}
	do(t, environ, "dlq", "replay", "--all").wants(t, exitFailure).prints(t, "it was replayed 3 times already").says(t, "1 dead letters were refused")
	for _, call := range []string{"order-1", "order-2", "order-3"} {
		await(t, environ, call, "Scheduled")
	}

	remaining := listDeadLetters(t, environ)[0]["id"].(string)
	do(t, environ, "dlq", "discard", "--tenant", "beta").wants(t, exitOK)
	do(t, environ, "dlq", "discard", remaining, "--dry-run").wants(t, exitOK)
	do(t, environ, "dlq", "discard", remaining).wants(t, exitOK).prints(t, "discarded  "+remaining+"  acme  missing_field\n")
	if got := listDeadLetters(t, environ); len(got) != 0 {
		t.Errorf("%d dead letters remain", len(got))
	}
}

// Interrupted work says so, and the other dead letters remain.
func TestDlqDiscardIsInterrupted(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	deadLettersOf(t, environ, `{"a":1}`, `{"a":2}`, `{"a":3}`)
	p := startIn(t, environ, "main", "dlq", "discard", "--all", "--rate", "0.1")
	p.prints(t, "discarded")
	p.signal(t, os.Interrupt)
	p.ends(t).wants(t, exitFailure).says(t, "interrupted")
	if remaining := listDeadLetters(t, environ); len(remaining) == 0 || len(remaining) == 3 {
		t.Errorf("%d dead letters of 3 remain", len(remaining))
	}
}

// A dead letter is only discarded if that can be reported.
func TestDiscardEndsWithItsOutput(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	deadLettersOf(t, environ, "one", "two", "three")
	var stderr strings.Builder
	if code := run(t.Context(), []string{"dlq", "discard", "--all"}, environ, full{}, &stderr); code != exitFailure || !strings.Contains(stderr.String(), errFull.Error()) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if remaining := listDeadLetters(t, environ); len(remaining) != 2 {
		t.Errorf("%d of 3 dead letters remain after the output failed at the first", len(remaining))
	}
}
