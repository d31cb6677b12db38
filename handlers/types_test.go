package handlers_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// A dead letter has no id that was not sent, and the correlation id of a header if the
// body has none.
func TestDeadLetterOfAMessageWithoutAnID(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.run(t, routing)
	d.deliver("hello", broker.MetaNoID, "true", "correlationId", "req-7")
	d.deliver(`{"id":"x-1"}`, broker.MetaNoID, "true", "correlationId", "req 8")
	for i, want := range [][2]string{{"", "req-7"}, {"x-1", ""}} {
		m := d.dead[i].Metadata
		if got := [2]string{m.Get(envelope.HeaderDeadLetterOriginalID), m.Get(envelope.HeaderCorrelationID)}; got != want {
			t.Errorf("id and correlation id %q, want %q", got, want)
		}
	}
}

func TestOtherTypesAreAckedCountedAndLoggedOnceIfTheyAreIgnored(t *testing.T) {
	t.Parallel()
	d := newHarness()
	var log logbuf.Buffer
	d.log, d.ignoreOthers = slog.NewTextHandler(&log, nil), true
	d.run(t, routing)
	defer func() {
		for range 3 {
			d.deliver(`{"type":"SomethingElse"}`)
		}
		if text := log.String(); strings.Count(text, "SomethingElse") != 1 || strings.Count(text, "\n") != 2 {
			t.Errorf("want a line for each type: %s", text)
		}
	}()
	event := envelope.Reached(timer.DueTimeReached{Key: command.Key, CommandID: "c", DueAt: noon, ReachedAt: noon})
	if !d.deliver(`{"type":"SomethingElse"}`) || !d.deliver(string(event)) {
		t.Error("not acked")
	}
	want := []handlers.Result{{Type: "other", Outcome: "ignored"}, {Type: "other", Outcome: "ignored"}}
	if diff := cmp.Diff(want, d.results); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
