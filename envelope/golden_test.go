package envelope_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// The golden files are written by hand, never by the encoder: a change that
// breaks one breaks consumers.
var (
	goldenDueAt    = time.Date(2030, time.January, 31, 11, 30, 0, 500e6, time.UTC)
	goldenKey      = timer.Key{TenantID: "acme", ServiceCallID: "order:42.pay"}
	goldenSchedule = timer.ScheduleTimer{
		Key:           goldenKey,
		Version:       timer.Version{TimestampMS: 1893456000000, CommandID: "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071"},
		DueAt:         goldenDueAt,
		CorrelationID: "req-7f3a",
	}
	goldenCancel = timer.CancelTimer{
		Key:     goldenKey,
		Version: timer.Version{TimestampMS: 1893456000001, CommandID: "0190b5a2-8000-7000-8000-000000000001"},
	}
	goldenReached = timer.DueTimeReached{
		Key:           goldenKey,
		CommandID:     "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071",
		DueAt:         goldenDueAt,
		ReachedAt:     goldenDueAt.Add(7 * time.Millisecond),
		CorrelationID: "req-7f3a",
	}
	goldenTrace = timer.Trace{Parent: parent, State: "vendor=1"}
	cloudEvents = envelope.Format{CloudEvents: true}

	goldenExpiresAt = time.Date(2030, time.January, 31, 12, 30, 0, 0, time.UTC)
	goldenExpiring  = func() timer.ScheduleTimer {
		c := goldenSchedule
		c.ExpiresAt = goldenExpiresAt
		return c
	}()
	goldenExpired = func() timer.TimerExpired {
		e := goldenReached
		e.ExpiresAt, e.ReachedAt = goldenExpiresAt, goldenExpiresAt.Add(7*time.Millisecond)
		return e.TimerExpired()
	}()

	goldenCancelMany = timer.CancelTimers{
		TenantID: "acme", Version: timer.Version{TimestampMS: 1893456000002, CommandID: "0190b5a2-8000-7000-8000-000000000002"},
		Of: timer.Selection{Prefix: "order:42."}, CorrelationID: "req-7f3a",
	}
	goldenRescheduleMany = timer.RescheduleTimers{
		TenantID: "acme", Version: goldenCancelMany.Version, Of: goldenCancelMany.Of, DueAt: goldenSchedule.DueAt, CorrelationID: "req-7f3a",
	}
)

// goldenMany returns the commands of schedule_timers.json, with a trace.
func goldenMany(trace timer.Trace) timer.ScheduleTimers {
	first := goldenSchedule
	first.Trace = trace
	second := first
	second.ServiceCallID = "order:43.pay"
	second.DueAt = time.Date(2030, time.February, 1, 0, 0, 0, 0, time.UTC)
	return timer.ScheduleTimers{TenantID: "acme", Version: first.Version, Commands: []timer.ScheduleTimer{first, second}}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A goldenFile is a message, and what encodes it; body is nil if only other programs write it.
type goldenFile struct {
	body []byte
	want envelope.Message
}

// messageOf returns the message of a payload.
func messageOf(kind, aggregate string, v timer.Version, correlationID string, payload any) envelope.Message {
	return envelope.Message{
		ID: v.CommandID, Type: kind, TenantID: "acme", AggregateID: aggregate, TimestampMS: v.TimestampMS, CorrelationID: correlationID, Payload: payload,
	}
}

func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	const call = "order:42.pay"
	traced := goldenSchedule
	traced.Trace = goldenTrace
	caused := messageOf("ScheduleTimer", call, traced.Version, "req-7f3a", traced)
	caused.CausationID = "cause-1"
	event := goldenReached
	event.Trace = goldenTrace
	received := goldenReached
	received.ID, received.CommandID = envelope.EventID(goldenReached), "" // which is not on the wire
	receivedTraced := received
	receivedTraced.Trace = goldenTrace
	reachedAt := timer.Version{TimestampMS: 1896089400507, CommandID: received.ID}

	expired := goldenExpired.Event()
	expired.Trace = goldenTrace
	gone := goldenExpired
	gone.ID, gone.CommandID = received.ID, "" // of the event in whose place it comes
	goneTraced := gone
	goneTraced.Trace = goldenTrace
	expiredAt := timer.Version{TimestampMS: goldenExpired.ExpiredAt.UnixMilli(), CommandID: gone.ID}

	named := goldenCancelMany
	named.Of, named.CorrelationID = timer.Selection{Calls: []timer.ServiceCallID{"order:42.pay", "order:42.ship"}}, ""
	moved := goldenRescheduleMany
	moved.Of, moved.CorrelationID = named.Of, ""
	for name, file := range map[string]goldenFile{
		"schedule_timer.json":               {envelope.Schedule(goldenSchedule), messageOf("ScheduleTimer", call, goldenSchedule.Version, "req-7f3a", goldenSchedule)},
		"schedule_timer_expires.json":       {envelope.Schedule(goldenExpiring), messageOf("ScheduleTimer", call, goldenSchedule.Version, "req-7f3a", goldenExpiring)},
		"cloudevent_schedule_timer.json":    {nil, caused},
		"schedule_timers.json":              {envelope.ScheduleMany(goldenMany(goldenTrace)), messageOf("ScheduleTimers", "", goldenSchedule.Version, "req-7f3a", goldenMany(timer.Trace{}))},
		"cloudevent_schedule_timers.json":   {nil, messageOf("ScheduleTimers", "", goldenSchedule.Version, "req-7f3a", goldenMany(goldenTrace))},
		"cancel_timer.json":                 {envelope.Cancel(goldenCancel), messageOf("CancelTimer", call, goldenCancel.Version, "", goldenCancel)},
		"cloudevent_cancel_timer.json":      {nil, messageOf("CancelTimer", "", goldenCancel.Version, "", goldenCancel)},
		"cancel_timers.json":                {envelope.CancelMany(goldenCancelMany), messageOf("CancelTimers", "", goldenCancelMany.Version, "req-7f3a", goldenCancelMany)},
		"cloudevent_cancel_timers.json":     {nil, messageOf("CancelTimers", "", named.Version, "", named)},
		"reschedule_timers.json":            {envelope.RescheduleMany(goldenRescheduleMany), messageOf("RescheduleTimers", "", goldenRescheduleMany.Version, "req-7f3a", goldenRescheduleMany)},
		"cloudevent_reschedule_timers.json": {nil, messageOf("RescheduleTimers", "", moved.Version, "", moved)},
		"due_time_reached.json":             {envelope.Reached(goldenReached), messageOf("DueTimeReached", call, reachedAt, "req-7f3a", received)},
		"cloudevent_due_time_reached.json":  {cloudEvents.Reached(event), messageOf("DueTimeReached", call, reachedAt, "req-7f3a", receivedTraced)},
		"timer_expired.json":                {envelope.Reached(goldenExpired.Event()), messageOf("TimerExpired", call, expiredAt, "req-7f3a", gone)},
		"cloudevent_timer_expired.json":     {cloudEvents.Reached(expired), messageOf("TimerExpired", call, expiredAt, "req-7f3a", goneTraced)},
	} {
		body := golden(t, name)
		if file.body != nil && !bytes.Equal(file.body, body) {
			t.Errorf("%s:\n got %s\nwant %s", name, file.body, body)
		}
		if tenant := envelope.TenantOf(body); tenant != "acme" {
			t.Errorf("%s: TenantOf returns %s", name, tenant)
		}
		got, err := envelope.Decode(body)
		clear(body) // the message shares no memory with it
		if diff := cmp.Diff(file.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// An attempt to publish an event again, after a crash, has the same fields but for
// the time of the attempt.
func TestAttemptsDifferInReachedAtAndTimestampOnly(t *testing.T) {
	t.Parallel()
	again := goldenReached
	again.ReachedAt = goldenReached.ReachedAt.Add(90 * time.Second)

	first := strings.NewReplacer("1896089400507", "1896089490507", "11:30:00.507", "11:31:30.507").
		Replace(string(golden(t, "due_time_reached.json")))
	if got := string(envelope.Reached(again)); got != first {
		t.Errorf("second attempt:\n got %s\nwant %s", got, first)
	}
}
