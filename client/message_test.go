package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestMessageHasTheWholeCommand(t *testing.T) {
	t.Parallel()
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	version := timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-1"}
	trace := timer.Trace{Parent: "00-01000000000000000000000000000000-0200000000000000-01", State: "a=b"}
	schedule := timer.ScheduleTimer{Key: key, Version: version, DueAt: noon, CorrelationID: "req-7", Trace: trace, Data: `{"n": 1}`}
	for _, command := range []client.Command{
		schedule,
		timer.ScheduleTimers{TenantID: "acme", Version: version, Commands: []timer.ScheduleTimer{schedule}},
		timer.CancelTimer{Key: key, Version: version, CorrelationID: "req-7", Trace: trace},
		timer.CancelTimers{TenantID: "acme", Version: version, Of: timer.Selection{Prefix: "order-1."}, CorrelationID: "req-7", Trace: trace},
		timer.RescheduleTimers{TenantID: "acme", Version: version, Of: timer.Selection{CorrelationID: "req-7"}, DueAt: noon, CorrelationID: "req-7", Trace: trace},
	} {
		msg, err := client.Message(command)
		must(t, err)
		got, err := envelope.DecodeWith(msg.Payload, msg.Metadata.Get)
		if diff := cmp.Diff(any(command), got.Payload); diff != "" || err != nil || msg.UUID != "c-1" {
			t.Errorf("message %s, %v: %s", msg.UUID, err, diff)
		}
	}
}

func TestMessageRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	version := timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-1"}
	for _, command := range []client.Command{
		timer.ScheduleTimer{Key: key, Version: version},
		timer.ScheduleTimer{Key: key, Version: version, DueAt: noon, Data: "{"},
		timer.ScheduleTimer{Key: key, DueAt: noon},
		timer.ScheduleTimers{TenantID: "acme", Version: version},
		timer.CancelTimer{Version: version},
		timer.RescheduleTimers{TenantID: "acme", Version: version, DueAt: noon},
		key.TenantID,
	} {
		if _, err := client.Message(command); !client.IsInvalid(err) {
			t.Errorf("%v: %v, want an ErrInvalid", command, err)
		}
	}
}
