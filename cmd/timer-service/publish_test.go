package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// split returns what splitLines makes of a text, as "number: body".
func split(t *testing.T, in io.Reader) (got []string) {
	t.Helper()
	if err := splitLines(in, func(l line) bool {
		body := string(l.body)
		if l.err != nil {
			body = "error: " + l.err.Error()
		}
		got = append(got, fmt.Sprintf("%d: %s", l.number, body))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFilesAreLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+1)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"blank lines", "\n \r\n\t\n", nil},
		{"a line without its end", `{"a":1}`, []string{`1: {"a":1}`}},
		{"lines", "{\"a\":1}\n\n {\"a\":2} \r\n{", []string{`1: {"a":1}`, `3: {"a":2}`, `4: {`}},
		{"no JSON", "hello\n{\"a\":1}\n", []string{`1: hello`, `2: {"a":1}`}},
		{"a line that is too long", "a\n" + long + "\nb", []string{"1: a", "2: error: longer than 64 KiB", "3: b"}},
		{"a first line that is too long", "{" + long + "\nb", []string{"1: error: longer than 64 KiB", "2: b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, split(t, strings.NewReader(tt.text))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, split(t, iotest.OneByteReader(strings.NewReader(tt.text)))); diff != "" {
				t.Errorf("byte by byte (-want +got):\n%s", diff)
			}
		})
	}
	broken := errors.New("disk failed")
	if err := splitLines(iotest.ErrReader(broken), func(line) bool { return true }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestPublishSendsLines(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	const n = 600 // more than a batch
	file := fileOf(t, commands(n, time.Hour)...)
	tailed := tailing(t, environ, "commands", "-n", fmt.Sprint(n), "-o", "json")
	text := do(t, environ, "publish", file).wants(t, exitOK)
	if want := "600 published, 0 refused\n"; text.stdout != want {
		t.Errorf("prints %q, want %q", text.stdout, want)
	}
	seen := make(map[any]bool)
	for i, m := range objects(t, (<-tailed).wants(t, exitOK).stdout) {
		has(t, m, map[string]any{"topic": "timer.commands"})
		has(t, m["headers"].(map[string]any), map[string]any{
			"type": "ScheduleTimer", "tenantId": "acme", "serviceCallId": fmt.Sprint("order-", i+1), "messageId": fmt.Sprint("command-", i+1),
		})
		has(t, m["body"].(map[string]any), map[string]any{"id": fmt.Sprint("command-", i+1), "type": "ScheduleTimer"})
		seen[m["id"]] = true
	}
	if len(seen) != n {
		t.Errorf("%d messages have %d ids", n, len(seen))
	}
	for _, call := range []string{"order-1", "order-600"} {
		awaitTimer(t, environ, call)
	}

	// A second time each is published once more, and changes nothing.
	before := do(t, environ, "get", "acme", "order-600", "-o", "json").stdout
	tailed = tailing(t, environ, "commands", "-n", fmt.Sprint(n+1), "-o", "json")
	has(t, decode(t, do(t, environ, "publish", file, "-o", "json").wants(t, exitOK).stdout), map[string]any{"result": "published", "messages": 600., "refused": 0.})
	do(t, environ, "schedule", "acme", "--in", "0", "--wait").wants(t, exitOK) // what comes later was handled
	(<-tailed).wants(t, exitOK)
	if after := do(t, environ, "get", "acme", "order-600", "-o", "json").stdout; after != before {
		t.Errorf("was %s and is %s", before, after)
	}
}

// The broker drops an id that it knows, whatever the body is. Each line that is reported
// as published must arrive nevertheless.
func TestPublishSendsLinesOfOneID(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	lines := commands(3, time.Hour)
	for i, line := range lines {
		lines[i] = strings.Replace(line, fmt.Sprint("command-", i+1), "1", 1)
	}
	if got := do(t, environ, "publish", fileOf(t, append(lines, lines[1])...)).wants(t, exitOK); got.stdout != "4 published, 0 refused\n" {
		t.Errorf("prints %q", got.stdout)
	}
	for i := range lines {
		awaitTimer(t, environ, fmt.Sprint("order-", i+1))
	}
}

// More than one request can take is published all the same.
func TestPublishSendsLargeLines(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	lines := commands(20, time.Hour)
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "}") + `,"more":"` + strings.Repeat("x", maxLine-1000) + `"}`
	}
	if got := do(t, environ, "publish", fileOf(t, lines...)).wants(t, exitOK); got.stdout != "20 published, 0 refused\n" {
		t.Errorf("prints %q", got.stdout)
	}
	awaitTimer(t, environ, "order-20")
}

// An invalid line is reported by its number, and the others are published.
func TestPublishRefusesWhatIsNotACommand(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	ok := commands(2, time.Hour)
	file := fileOf(t, ok[0], `{"type":"ScheduleTimer","tenantId":"acme"}`, "", "\x1b[31m", `{"type":"OrderPlaced","tenantId":"acme"}`, ok[1], strings.Repeat("x", 2<<20))
	got := do(t, environ, "publish", file).wants(t, exitFailure)
	if want := "2 published, 4 refused\n"; got.stdout != want {
		t.Errorf("prints %q, want %q", got.stdout, want)
	}
	for _, want := range []string{"line 2: ", "line 4: ", `line 5: "OrderPlaced" is not a command`, "line 7: longer than 64 KiB", "messages refused: 4"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "\x1b") {
		t.Errorf("terminals would interpret %q", got.stderr)
	}
	awaitTimer(t, environ, "order-2")

	// On a slow machine lines of progress come between.
	flood := do(t, environ, "publish", fileOf(t, strings.Repeat("no\n", 5000))).wants(t, exitFailure)
	if n := strings.Count(flood.stderr, "line "); n > maxErrors || !strings.Contains(flood.stderr, "messages refused: 5000") {
		t.Errorf("5000 mistakes print\n%s", flood.stderr)
	}
}

// TestPublishByTheTopicOfTheTenant, if each has one.
func TestPublishByTheTopicOfTheTenant(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_COMMANDS_TOPIC=svc.{tenant}.timer")
	tailed := tailing(t, environ, "commands", "--tenant", "acme", "-n", "1", "-o", "json")
	do(t, environ, "publish", fileOf(t, commands(1, time.Hour)[0])).wants(t, exitOK)
	has(t, decode(t, (<-tailed).wants(t, exitOK).stdout), map[string]any{"topic": "svc.acme.timer"})
	awaitTimer(t, environ, "order-1")
}

// The token of a tenant publishes nothing of another one.
func TestPublishWithTheTokenOfATenant(t *testing.T) {
	t.Parallel()
	server, _ := answering(t, "TIMER_HTTP_TOKEN=all-tenants-0001", "TIMER_HTTP_TENANT_TOKENS_FILE="+fileOf(t, "acme: [token-of-acme-0001]"))
	lines := commands(2, time.Hour)
	lines[0] = strings.ReplaceAll(lines[0], `"acme"`, `"other"`)
	got := do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "publish", fileOf(t, lines...), "--server", server).wants(t, exitFailure)
	if got.stdout != "1 published, 1 refused\n" || !strings.Contains(got.stderr, "line 1: there is nothing of this tenant") {
		t.Errorf("prints %q and %q", got.stdout, got.stderr)
	}
	do(t, []string{"TIMER_HTTP_TOKEN=token-of-acme-0001"}, "tail", "events", "--tenant", "other", "--server", server).wants(t, exitNotFound)
}

// A pipe is published as it is written, at the given rate, until its end, or until it is
// interrupted: then it says how many were published.
func TestPublishFollowsAPipe(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	for _, interrupt := range []bool{false, true} {
		p := prepare(t, environ, "main", "publish", "-", "--rate", "1000")
		in, err := p.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for i, c := range commands(3, time.Hour) {
			call := fmt.Sprintf("order-%d-%t", i+1, interrupt)
			fmt.Fprintln(in, strings.ReplaceAll(c, fmt.Sprint("order-", i+1), call))
			awaitTimer(t, environ, call)
		}
		want := exitOK
		if interrupt {
			want = exitFailure
			p.signal(t, os.Interrupt)
		} else {
			in.Close()
		}
		p.prints(t, "3 published, 0 refused")
		if code := p.ends(t); code != want || strings.Contains(p.stderr.String(), "interrupted; publish it again") != interrupt {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
		in.Close()
	}
}
