package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
)

func TestTailPrintsALineAMessage(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_HORIZON=1h", "TIMER_RECEIPTS=true")
	events := tailing(t, environ, "events", "-n", "2")
	ofBeta := tailing(t, environ, "events", "--tenant", "beta", "-n", "1")
	commanded := tailing(t, environ, "commands", "--tenant", "beta", "-n", "2")
	dead := tailing(t, environ, "dlq", "-n", "1")
	receipts := tailing(t, environ, "receipts", "-n", "4")
	do(t, environ, "schedule", "acme", "order-1", "--in", "0", "--until-fired").wants(t, exitOK)
	do(t, environ, "schedule", "beta", "order-2", "--in", "0", "--until-fired").wants(t, exitOK)
	do(t, environ, "publish", fileOf(t, `{"id":"c","type":"CancelTimer","tenantId":"beta","timestampMs":1795348800000,"payload":{"tenantId":"beta","serviceCallId":"order-2"}}`)).wants(t, exitOK)
	publishRaw(t, environ, strings.ReplaceAll(commands(1, 2*time.Hour)[0], "order-1", "order-3"))
	for _, tt := range []struct {
		name string
		ran  <-chan ran
		want [][]string // of each line
	}{
		{"events", events, [][]string{{"  svc.acme.serviceCall  DueTimeReached  acme  order-1  {", `"reachedAt":"`, "  id "}, {"  svc.beta.serviceCall  "}}},
		{"events of a tenant", ofBeta, [][]string{{"  DueTimeReached  beta  order-2  {"}}},
		{"commands of a tenant", commanded, [][]string{{"  timer.commands  ", `"dueAt":"`}, {`"type":"CancelTimer"`, "  id "}}},
		{"receipts", receipts, [][]string{
			{"  svc.acme.receipts  TimerScheduled  acme  order-1  "},
			{"  svc.beta.receipts  TimerScheduled  beta  order-2  "},
			{"  TimerIgnored  beta  order-2  "},
			{"  TimerRejected  acme  order-3  ", "beyond_horizon"},
		}},
		{"dead letters", dead, [][]string{{"  svc.acme.dlq  DeadLetter  acme  ", "  beyond_horizon  dueAt "}}},
	} {
		got := (<-tt.ran).wants(t, exitOK).stdout
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) != len(tt.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", tt.name, len(lines), len(tt.want), got)
			continue
		}
		for i, parts := range tt.want {
			for _, part := range parts {
				if !strings.Contains(lines[i], part) {
					t.Errorf("%s: line %d lacks %q: %s", tt.name, i+1, part, lines[i])
				}
			}
		}
	}
}

func TestTailEndsWellWhenInterrupted(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	p := prepare(t, environ, "main", "tail", "events")
	listening := p.stderr.expects("listening to events")
	must(t, p.Start())
	<-listening
	p.signal(t, os.Interrupt)
	p.ends(t).wants(t, exitOK)
}

// tail must not wait for messages that it can't print.
func TestTailEndsWithItsOutput(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	var stderr stream
	listening := stderr.expects("listening")
	ended := make(chan int, 1)
	go func() { ended <- run(t.Context(), []string{"tail", "commands"}, environ, full{}, &stderr) }()
	<-listening
	do(t, environ, "publish", fileOf(t, commands(1, time.Hour)...)).wants(t, exitOK)
	if code := <-ended; code != exitFailure || !strings.Contains(stderr.String(), errFull.Error()) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// Any producer may publish anything to any topic.
func TestTailPrintsNothingThatATerminalInterprets(t *testing.T) {
	t.Parallel()
	hostile := "\x1b[2J\u202e\u009b1m\r\nnext\x00\xff"
	body := &admin.Message{Topic: hostile, ID: hostile, Headers: map[string]string{
		envelope.HeaderTenantID: hostile, envelope.HeaderDeadLetterReason: hostile, envelope.HeaderDeadLetterDetail: hostile,
	}}
	text, dead, typed := *body, *body, *body
	text.Body = json.RawMessage(`"\u001b[2J` + "\u202e\u009b" + `"`)
	dead.Headers = maps.Clone(body.Headers)
	dead.Headers[envelope.HeaderType] = envelope.TypeDeadLetter
	typed.Body = json.RawMessage("{\"type\":\"\u202e\",\"x\":\"\u009b\"}")
	for _, m := range []admin.Message{text, dead, typed, {Base64: &hostile}} {
		var out strings.Builder
		output{w: &out, json: true}.print(m, messageText(m))
		output{w: &out}.print(m, messageText(m))
		if strings.ContainsAny(out.String(), "\x1b\u202e\u009b\r\x00") || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("prints %q", out.String())
		}
	}
}

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
