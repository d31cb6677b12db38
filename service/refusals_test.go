package service_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

func TestFXIsLoggedOnlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		var log logbuf.Buffer
		cfg := load(t, "TIMER_BROKER=gochannel", fmt.Sprint("TIMER_LOG_FX=", asked))
		r := runLogged(t, cfg, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		r.line("ready")
		if err := r.finish(); err != nil {
			t.Error(err)
		}
		if logged := strings.Contains(log.String(), "OnStart hook"); logged != asked {
			t.Errorf("asked %t: fx is logged: %t", asked, logged)
		}
	}
}

func TestUnknownTypesAreIgnoredWhereTeamsShareATopic(t *testing.T) {
	t.Parallel()
	var log logbuf.Buffer
	cfg := load(t, "TIMER_UNKNOWN_TYPES=ignore")
	r := runLogged(t, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	r.line("ready")
	client := connected(t, cfg)
	deadLetters := tails(t, client, "svc.acme.dlq")
	for _, body := range []string{`{"id":"1","type":"OrderPlaced","tenantId":"acme"}`, `{"id":"2","type":"OrderPlaced","tenantId":"acme"}`, `{"id":"3","type":7,"tenantId":"acme"}`} {
		if err := client.Publisher().Publish(t.Context(), broker.Message{Topic: "timer.commands", Message: message.NewMessage("", []byte(body))})[0]; err != nil {
			t.Fatal(err)
		}
	}
	m := <-deadLetters
	m.Ack()
	if id := m.Metadata.Get(envelope.HeaderDeadLetterOriginalID); id != "3" {
		t.Errorf("%s is a dead letter", id)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "OrderPlaced"); n != 1 || !strings.Contains(log.String(), "other.ignored=2") {
		t.Errorf("%d lines name the type, want 1, and 2 are counted:\n%s", n, log.String())
	}
}

// TestElevenBadCommands sends what producers get wrong, as a producer without our
// library does: no headers, no id at the broker. Each is a dead letter that names its
// command, and a warning.
func TestElevenBadCommands(t *testing.T) {
	t.Parallel()
	var log logbuf.Buffer
	cfg := load(t)
	r := runLogged(t, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	r.line("ready")
	client := connected(t, cfg)
	named, unnamed := tails(t, client, "svc.acme.dlq"), tails(t, client, "svc._.dlq")

	now := time.Now()
	due := envelope.FormatTime(now.Add(time.Hour))
	command := func(n int, old, changed string) string {
		body := fmt.Sprintf(`{"id":"c-%[1]d","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-%[1]d","timestampMs":%[2]d,"correlationId":"req-%[1]d",`+
			`"payload":{"tenantId":"acme","serviceCallId":"order-%[1]d","dueAt":"%[3]s"}}`, n, now.UnixMilli(), due)
		if !strings.Contains(body, old) {
			t.Fatalf("%s has no %s", body, old)
		}
		return strings.Replace(body, old, changed, 1)
	}
	bad := []struct {
		body   string
		reason timer.Reason
		detail string // part of it
	}{
		{"schedule order-0 please", timer.ReasonNotJSON, ""},
		{command(1, `}}`, ``), timer.ReasonNotJSON, ""},
		{command(2, fmt.Sprint(now.UnixMilli()), fmt.Sprint(now.UnixMicro())), timer.ReasonBadTime, "it looks like microseconds"},
		{command(3, `ScheduleTimer`, `SheduleTimer`), timer.ReasonUnknownType, `type "SheduleTimer" is not a command`},
		{command(4, `,"dueAt":"`+due+`"`, ``), timer.ReasonMissingField, "payload.dueAt is missing"},
		{command(5, due, due[:len(due)-1]), timer.ReasonBadTime, "payload.dueAt"},
		{command(6, `"payload":{"tenantId":"acme"`, `"payload":{"tenantId":"beta"`), timer.ReasonTenantMismatch, ""},
		{command(7, `"aggregateId":"order-7"`, `"aggregateId":"order-8"`), timer.ReasonKeyMismatch, ""},
		{command(8, `}}`, `},"note":1,"note":2}`), timer.ReasonDuplicateKey, ""},
		{command(9, due, envelope.FormatTime(now.AddDate(12, 0, 0))), timer.ReasonBeyondHorizon, ""},
		{command(10, `}}`, `,"data":"`+strings.Repeat("x", 5000)+`"}}`), timer.ReasonTooLarge, "payload.data has 5002 bytes"},
	}
	for _, b := range bad {
		if err := client.Publisher().Publish(t.Context(), broker.Message{Topic: "timer.commands", Message: message.NewMessage("", []byte(b.body))})[0]; err != nil {
			t.Fatal(err)
		}
	}

	arrived := make(map[string]message.Metadata)
	late := time.After(time.Minute)
	for range bad {
		select {
		case m := <-named:
			arrived[string(m.Payload)] = m.Metadata
			m.Ack()
		case m := <-unnamed:
			arrived[string(m.Payload)] = m.Metadata
			m.Ack()
		case <-late:
			t.Fatalf("%d of %d dead letters arrived", len(arrived), len(bad))
		}
	}
	for i, b := range bad {
		id, correlation := fmt.Sprint("c-", i), fmt.Sprint("req-", i)
		if i == 0 {
			id, correlation = "", "" // none was sent
		}
		got := arrived[b.body]
		for name, want := range map[string]string{
			envelope.HeaderDeadLetterReason: string(b.reason), envelope.HeaderDeadLetterOriginalID: id, envelope.HeaderCorrelationID: correlation,
		} {
			if got[name] != want {
				t.Errorf("%.60s: %s is %q, want %q", b.body, name, got[name], want)
			}
		}
		if !strings.Contains(got[envelope.HeaderDeadLetterDetail], b.detail) {
			t.Errorf("%.60s: detail %q, want %q", b.body, got[envelope.HeaderDeadLetterDetail], b.detail)
		}
	}

	if err := r.finish(); err != nil {
		t.Error(err)
	}
	refusals := make(map[string]int) // lines by tenant and reason
	for line := range strings.Lines(log.String()) {
		if _, rest, found := strings.Cut(line, `level=WARN msg="messages refused" `); found {
			kind, _, _ := strings.Cut(rest, " count=")
			refusals[kind]++
		}
		if strings.Contains(line, "xxx") {
			t.Errorf("data are in the log: %s", line)
		}
	}
	for i, b := range bad {
		kind, lines := "tenant_id=acme reason="+string(b.reason), 1
		switch {
		case i == 0:
			kind = "tenant_id=_ reason=not_json"
		case b.reason == timer.ReasonBadTime: // there are two
			lines = 2
		case !strings.Contains(log.String(), fmt.Sprintf("%s count=1 first_message_id=c-%d first_correlation_id=req-%d ", kind, i, i)):
			t.Errorf("no line with %s and the ids of command %d", kind, i)
		}
		if refusals[kind] != lines {
			t.Errorf("%d lines with %s, want %d", refusals[kind], kind, lines)
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}
