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

// TestDataReachTheEventAndNoLog: data travel from a command to its event, byte for byte, and no
// line of the log shows them, whatever becomes of the command.
func TestDataReachTheEventAndNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logbuf.Buffer
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
		service := timertest.Start(t, timertest.Log(log))
		b, events := &bench{t: t, broker: service.Broker()}, service.Events("acme")

		const data = `{ "secret":  [1.0, "marker-\u00e9"] }`
		command := timer.ScheduleTimer{
			Key:     keyOf("with"),
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-1"},
			DueAt:   time.Now().Add(time.Hour), Data: data, CorrelationID: "req-1",
		}
		b.publish("c-1", envelope.Schedule(command))
		invalid := strings.Replace(string(envelope.Schedule(command)), `"secret"`, `"marker-3":1,"marker-3"`, 1)
		b.publish("c-2", []byte(invalid))
		if e := <-events; e.Data != data {
			t.Errorf("the event has %q", e.Data)
		}
		time.Sleep(time.Second)
		for _, msg := range []string{"command handled", "message refused", "timer fired", "event delivered"} {
			want := `msg="` + msg + `" `
			if _, attrs, _ := strings.Cut(lines.String(), want); !strings.Contains(attrs, "tenant_id=acme service_call_id=with correlation_id=req-1") {
				t.Errorf("no line %q names the timer:\n%s", msg, &lines)
			}
		}
		if strings.Contains(lines.String(), "marker") {
			t.Errorf("data are in the log:\n%s", &lines)
		}
	})
}
