package main

import (
	"encoding/json"
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
		h := &shownMessage{m}
		var out strings.Builder
		output{w: &out, json: true}.print(h)
		output{w: &out}.print(h)
		if strings.ContainsAny(out.String(), "\x1b\u202e\u009b\r\x00") || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("prints %q", out.String())
		}
	}
}
