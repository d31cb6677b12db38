package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestPublishSendsLines of more than one batch. A second time each is published once more, and
// changes nothing.
func TestPublishSendsLines(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	file := fileOf(t, commands(600, time.Hour)...)
	do(t, environ, "publish", file).wants(t, exitOK).prints(t, "600 published, 0 refused\n")
	await(t, environ, "order-1", "Scheduled")
	await(t, environ, "order-600", "Scheduled")
	before := do(t, environ, "get", "acme", "order-600", "-o", "json").stdout
	do(t, environ, "publish", file, "-o", "json").wants(t, exitOK).prints(t, `{"result":"published","messages":600,"refused":0}`)
	do(t, environ, "schedule", "acme", "--in", "0", "--until-fired").wants(t, exitOK) // all earlier messages were handled
	if after := do(t, environ, "get", "acme", "order-600", "-o", "json").stdout; after != before {
		t.Errorf("was %s and is %s", before, after)
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
	do(t, environ, "publish", fileOf(t, lines...)).wants(t, exitOK).prints(t, "20 published, 0 refused\n")
	await(t, environ, "order-20", "Scheduled")
}

// An invalid line is reported by its number, and the others are published.
func TestPublishRefusesWhatIsNotACommand(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	ok := commands(2, time.Hour)
	file := fileOf(t, "\uFEFF"+ok[0], `{"type":"ScheduleTimer","tenantId":"acme"}`, "", "\x1b[31m", `{"type":"OrderPlaced","tenantId":"acme"}`, ok[1], strings.Repeat("x", 2<<20))
	got := do(t, environ, "publish", file).wants(t, exitFailure).prints(t, "2 published, 4 refused\n").
		says(t, "line 2: ", "line 4: ", `line 5: "OrderPlaced" is not a command`, "line 7: longer than 64 KiB", "messages refused: 4")
	if strings.Contains(got.stderr, "\x1b") {
		t.Errorf("terminals would interpret %q", got.stderr)
	}
	await(t, environ, "order-2", "Scheduled")

	// On a slow machine lines of progress come between.
	flood := do(t, environ, "publish", fileOf(t, strings.Repeat("no\n", 5000))).wants(t, exitFailure)
	if n := strings.Count(flood.stderr, "line "); n > maxErrors || !strings.Contains(flood.stderr, "messages refused: 5000") {
		t.Errorf("5000 mistakes print\n%s", flood.stderr)
	}
}

// A pipe is published as it is written, at the given rate, until its end, or until it is
// interrupted: then it says how many were published.
func TestPublishFollowsAPipe(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	for _, interrupt := range []bool{false, true} {
		p := prepare(t, environ, "main", "publish", "-", "--rate", "1000")
		in, err := p.StdinPipe()
		must(t, err)
		must(t, p.Start())
		for i, c := range commands(3, time.Hour) {
			call := fmt.Sprintf("order-%d-%t", i+1, interrupt)
			fmt.Fprintln(in, strings.ReplaceAll(c, fmt.Sprint("order-", i+1), call))
			await(t, environ, call, "Scheduled")
		}
		want := exitOK
		if interrupt {
			want = exitFailure
			p.signal(t, os.Interrupt)
		} else {
			in.Close()
		}
		p.prints(t, "3 published, 0 refused")
		if code := p.ends(t).code; code != want || strings.Contains(p.stderr.String(), "interrupted; publish it again") != interrupt {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
		in.Close()
	}
}
