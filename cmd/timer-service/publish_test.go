package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
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

func TestFilesAreLinesOrOneBody(t *testing.T) {
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
		{"one body of many lines", "\n{\n  \"a\": 1\n}\n\n", []string{"2: {\n  \"a\": 1\n}"}},
		{"many lines that are no body", "{\n\"a\": 1\n}}\n", []string{`1: {`, `2: "a": 1`, `3: }}`}},
		{"no JSON", "hello\n{\"a\":1}\n", []string{`1: hello`, `2: {"a":1}`}},
		{"a line that is too long", "a\n" + long + "\nb", []string{"1: a", "2: error: longer than 1 MiB", "3: b"}},
		{"a first line that is too long", "{" + long + "\nb", []string{"1: error: longer than 1 MiB", "2: b"}},
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

// A pipe may never end, so an invalid first line must not keep back the lines after
// it.
func TestABrokenFirstLineDelaysNoOtherLine(t *testing.T) {
	t.Parallel()
	for _, first := range []string{`{broken`, `{"a":`, `{"a":1} {`, `{"a":1}}`, `{"a":"`} {
		synctest.Test(t, func(t *testing.T) {
			in, out := io.Pipe()
			lines, failed := readLines(t.Context(), in)
			want := []string{first, `{"b":1}`, `{"c":1}`, `{"d":1}`}
			for _, text := range want {
				if _, err := fmt.Fprintln(out, text); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if len(lines) != len(want) {
				t.Errorf("after %q %d lines of 4 can be read while the pipe is open", first, len(lines))
			}
			out.Close()
			for _, text := range want {
				if l := <-lines; string(l.body) != text {
					t.Errorf("after %q comes %q, want %q", first, l.body, text)
				}
			}
			if err := <-failed; err != nil {
				t.Error(err)
			}
		})
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
	for i, m := range objects(t, (<-tailed).wants(t, exitOK).stdout) {
		has(t, m, map[string]any{"topic": "timer.commands", "id": fmt.Sprint("command-", i+1)})
		has(t, m["headers"].(map[string]any), map[string]any{
			"type": "ScheduleTimer", "tenantId": "acme", "serviceCallId": fmt.Sprint("order-", i+1), "messageId": fmt.Sprint("command-", i+1),
		})
		has(t, m["body"].(map[string]any), map[string]any{"id": fmt.Sprint("command-", i+1), "type": "ScheduleTimer"})
	}
	for _, call := range []string{"order-1", "order-600"} {
		awaitTimer(t, environ, call)
	}

	// A second time changes nothing: the broker knows the ids.
	tailed = tailing(t, environ, "dlq", "-n", "1", "-o", "json")
	has(t, decode(t, do(t, environ, "publish", file, "-o", "json").wants(t, exitOK).stdout), map[string]any{"result": "published", "messages": 600., "refused": 0.})
	do(t, environ, "publish", "--raw", fileOf(t, "the end")).wants(t, exitOK)
	if m := decode(t, (<-tailed).wants(t, exitOK).stdout); m["body"] != "the end" || m["headers"].(map[string]any)["deadLetterPosition"] != "601" {
		t.Errorf("what comes after 600 commands, twice, is %v", m)
	}
}

// The broker drops an id that it knows, whatever the body is. Each line that is
// reported as published must arrive nevertheless.
func TestPublishSendsLinesOfOneID(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	lines := commands(3, time.Hour)
	for i, line := range lines {
		lines[i] = strings.Replace(line, fmt.Sprint("command-", i+1), "1", 1)
	}
	tailed := tailing(t, environ, "dlq", "-n", "1", "-o", "json")
	for range 2 { // the second time changes nothing
		if got := do(t, environ, "publish", fileOf(t, append(lines, lines[1])...)).wants(t, exitOK); got.stdout != "4 published, 0 refused\n" {
			t.Errorf("prints %q", got.stdout)
		}
	}
	do(t, environ, "publish", "--raw", fileOf(t, "the end")).wants(t, exitOK)
	if m := decode(t, (<-tailed).wants(t, exitOK).stdout); m["body"] != "the end" || m["headers"].(map[string]any)["deadLetterPosition"] != "4" {
		t.Errorf("what comes after 3 commands is %v", m)
	}
	for i := range lines {
		awaitTimer(t, environ, fmt.Sprint("order-", i+1))
	}
}

// One envelope in many lines is one message, as it stands in the file.
func TestPublishSendsAFile(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(commands(1, time.Hour)[0]), "", "  "); err != nil {
		t.Fatal(err)
	}
	do(t, environ, "publish", fileOf(t, pretty.String())).wants(t, exitOK)
	awaitTimer(t, environ, "order-1")
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
	for _, want := range []string{"line 2: ", "line 4: ", `line 5: "OrderPlaced" is not a command; --raw`, "line 7: longer than 1 MiB", "messages refused: 4"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "\x1b") {
		t.Errorf("terminals would interpret %q", got.stderr)
	}
	awaitTimer(t, environ, "order-2")

	flood := do(t, environ, "publish", fileOf(t, strings.Repeat("no\n", 5000))).wants(t, exitFailure)
	if strings.Count(flood.stderr, "\n") > maxErrors+2 || !strings.Contains(flood.stderr, "messages refused: 5000") {
		t.Errorf("5000 mistakes print\n%s", flood.stderr)
	}
}

// If there is a topic for each tenant, a line without a tenant has no topic.
func TestPublishByTheTopicOfTheTenant(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_COMMANDS_TOPIC=svc.{tenant}.timer")
	tailed := tailing(t, environ, "commands", "--tenant", "acme", "-n", "1", "-o", "json")
	got := do(t, environ, "publish", "--raw", fileOf(t, "no tenant", commands(1, time.Hour)[0])).wants(t, exitFailure)
	if !strings.Contains(got.stderr, "line 1: names no tenant") {
		t.Errorf("stderr is %q", got.stderr)
	}
	has(t, decode(t, (<-tailed).wants(t, exitOK).stdout), map[string]any{"topic": "svc.acme.timer"})
	awaitTimer(t, environ, "order-1")
}

// A pipe is published as it is written, at the given rate, until interrupted.
func TestPublishFollowsAPipe(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	p := prepare(t, environ, "main", "publish", "-", "--rate", "1000")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for i, c := range commands(3, time.Hour) {
		fmt.Fprintln(in, c)
		awaitTimer(t, environ, fmt.Sprint("order-", i+1))
	}
	in.Close()
	p.prints(t, "3 published, 0 refused")
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
}

// A pipe may never end, so old ids must be dropped.
func TestIDsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 100
	s := newIDs(most)
	body := []byte("first")
	for i := range 3 * most {
		if id := fmt.Sprint(i); s.of(id, body) != id {
			t.Fatalf("%s was used before", id)
		}
	}
	if n := len(s.now) + len(s.before); n > 2*most {
		t.Errorf("%d ids are in memory", n)
	}
	last := fmt.Sprint(2 * most) // as many ids ago as are kept
	if id := s.of(last, []byte("second")); id == last {
		t.Errorf("%s is used for another body", id)
	}
}
