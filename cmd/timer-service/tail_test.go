package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestTailPrintsALineAMessage(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_HORIZON=1h", "TIMER_RECEIPTS=true")
	events := tailing(t, environ, "events", "-n", "2")
	ofBeta := tailing(t, environ, "events", "--tenant", "beta", "-n", "1")
	commanded := tailing(t, environ, "commands", "--tenant", "beta", "-n", "2")
	dead := tailing(t, environ, "dlq", "-n", "1")
	receipts := tailing(t, environ, "receipts", "-n", "4")
	do(t, environ, "schedule", "acme", "order-1", "--in", "0", "--wait").wants(t, exitOK)
	do(t, environ, "schedule", "beta", "order-2", "--in", "0", "--wait").wants(t, exitOK)
	do(t, environ, "cancel", "beta", "order-2").wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-3", "--in", "2h", "--wait").wants(t, exitFailure)
	for _, tt := range []struct {
		name string
		ran  <-chan ran
		want [][]string // of each line
	}{
		{"events", events, [][]string{{"  svc.acme.serviceCall  DueTimeReached  acme.order-1  due ", " late  id "}, {"  svc.beta.serviceCall  "}}},
		{"events of a tenant", ofBeta, [][]string{{"  DueTimeReached  beta.order-2  due "}}},
		{"commands of a tenant", commanded, [][]string{{"  timer.commands  ScheduleTimer  beta.order-2  due "}, {"  CancelTimer  beta.order-2  id "}}},
		{"receipts", receipts, [][]string{
			{"  svc.acme.receipts  TimerScheduled  acme.order-1  command ", "  due "},
			{"  svc.beta.receipts  TimerScheduled  beta.order-2  command "},
			{"  TimerIgnored  beta.order-2  command ", "  reached  "},
			{"  TimerRejected  acme.order-3  command ", "  beyond_horizon: dueAt "},
		}},
		{"dead letters", dead, [][]string{{"  svc.acme.dlq  DeadLetter  acme  beyond_horizon: dueAt "}}},
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
	listening := p.stderr.expects("listening to svc.*.serviceCall")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	<-listening
	p.signal(t, os.Interrupt)
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d, want %d: %s", code, exitOK, p.stderr.String())
	}
}

func TestTailNamesTheTopic(t *testing.T) {
	t.Parallel()
	nats := broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}
	kafka := broker.Routing{Commands: "timer.commands", Events: "service.events", DeadLetters: "service.events.{tenant}.dlq", Receipts: "service.receipts"}
	tests := []struct {
		routing      broker.Routing
		what, tenant string
		want         string // empty if a tenant must be named
		shared       bool
	}{
		{nats, "commands", "", "timer.commands", true},
		{nats, "commands", "acme", "timer.commands", true},
		{nats, "events", "", "svc.*.serviceCall", false},
		{nats, "dlq", "acme", "svc.acme.dlq", false},
		{nats, "dlq", "_", "svc._.dlq", false},
		{kafka, "events", "acme", "service.events", true},
		{kafka, "receipts", "acme", "service.receipts", true},
		{kafka, "dlq", "", "", false},
		{kafka, "dlq", "acme", "service.events.acme.dlq", false},
	}
	for _, tt := range tests {
		c := tailCmd{What: tt.what, Tenant: visited(tt.tenant)}
		topic, shared, err := c.topic(tt.routing)
		if topic != tt.want || shared != tt.shared || (err == nil) != (tt.want != "") {
			t.Errorf("%s of %q: %q, %v, %v; want %q, %v", tt.what, tt.tenant, topic, shared, err, tt.want, tt.shared)
		}
		if err != nil && !strings.Contains(err.Error(), "--tenant") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
	if _, _, err := (&tailCmd{What: "receipts"}).topic(nats); err == nil || !strings.Contains(err.Error(), "TIMER_RECEIPTS") {
		t.Errorf("without receipts: %v", err)
	}
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
	m := message.NewMessage(hostile, []byte(hostile))
	for _, name := range []string{broker.MetaTopic, envelope.HeaderTenantID, envelope.HeaderDeadLetterReason, envelope.HeaderDeadLetterDetail} {
		m.Metadata.Set(name, hostile)
	}
	dead := m.Copy()
	dead.Metadata.Set(envelope.HeaderType, envelope.TypeDeadLetter)
	typed := m.Copy()
	typed.Payload = []byte("{\"type\":\"\u202e\",\"x\":\"\u009b\"}")
	for _, m := range []*message.Message{m, dead, typed} {
		h := showMessage(m, noon)
		var out strings.Builder
		output{w: &out, json: true}.print(h)
		output{w: &out}.print(h)
		if strings.ContainsAny(out.String(), "\x1b\u202e\u009b\r\x00") || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("prints %q", out.String())
		}
	}
	if tenantOf(m) != timer.TenantID(hostile) || tenantOf(message.NewMessage("", []byte(commands(1, time.Hour)[0]))) != "acme" {
		t.Error("tenants by header, then by body")
	}
}
