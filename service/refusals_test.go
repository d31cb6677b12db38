package service_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

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
	r.stops()
	if n := strings.Count(log.String(), "OrderPlaced"); n != 1 {
		t.Errorf("%d lines name the type, want 1:\n%s", n, log.String())
	}
}
