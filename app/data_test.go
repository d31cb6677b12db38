package app_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// TestDataTravelWithATimer from a command to the event of its version, byte for byte,
// and are in no line of the log.
func TestDataTravelWithATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logbuf.Buffer
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
		service := timertest.Start(t, timertest.Log(log))
		b, events := &bench{t: t, broker: service.Broker()}, service.Events("acme")

		const first, second = `{ "secret":  [1.0, "marker-\u00e9"] }`, `"marker-2"`
		command := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: "with"},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-1"},
			DueAt:   time.Now().Add(time.Hour),
			Data:    first, CorrelationID: "req-1",
		}
		b.publish("c-1", envelope.Schedule(command))
		replaced := command
		replaced.ServiceCallID, replaced.CommandID = "replaced", "c-2"
		b.publish("c-2", envelope.Schedule(replaced))
		replaced.CommandID, replaced.Data = "c-3", second
		b.publish("c-3", envelope.Schedule(replaced))
		removed := command
		removed.ServiceCallID, removed.CommandID = "removed", "c-4"
		b.publish("c-4", envelope.Schedule(removed))
		removed.CommandID, removed.Data = "c-5", ""
		b.publish("c-5", envelope.Schedule(removed))
		invalid := strings.Replace(string(envelope.Schedule(command)), `"secret"`, `"marker-3":1,"marker-3"`, 1)
		b.publish("c-6", []byte(invalid))
		synctest.Wait() // gochannel hands over what is published at once in no order

		removed.CommandID, removed.TimestampMS = "c-7", removed.TimestampMS-1
		removed.CorrelationID = "req-7"
		b.publish("c-7", envelope.Schedule(removed))

		got := make(map[timer.ServiceCallID]string)
		for range 3 {
			e := <-events
			got[e.ServiceCallID] = e.Data
		}
		if got["with"] != first || got["replaced"] != second || got["removed"] != "" {
			t.Errorf("the events have %q", got)
		}
		time.Sleep(time.Second)
		for _, want := range []string{ // a line for what happens to a message
			`msg="command handled" type=ScheduleTimer outcome=scheduled tenant_id=acme service_call_id=with correlation_id=req-1 message_id=c-1`,
			`msg="command handled" type=ScheduleTimer outcome=stale tenant_id=acme service_call_id=removed correlation_id=req-7 message_id=c-7`,
			`msg="message refused" tenant_id=acme service_call_id=with correlation_id=req-1 message_id=c-1 reason=duplicate_key`,
			`msg="timer fired" tenant_id=acme service_call_id=with correlation_id=req-1 due_at=`,
			`msg="event delivered" tenant_id=acme service_call_id=with correlation_id=req-1 event_id=`,
		} {
			if n := strings.Count(lines.String(), want); n != 1 {
				t.Errorf("%d lines with %s, want one", n, want)
			}
		}
		if text := lines.String(); strings.Contains(text, "marker") || text == "" {
			t.Errorf("data are in the log:\n%s", text)
		}
	})
}
