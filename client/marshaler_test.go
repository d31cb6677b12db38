package client_test

import (
	"reflect"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var _ cqrs.CommandEventMarshaler = client.Marshaler{}

// ofEach are a command or event of each type.
func ofEach() []any {
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	version := timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-1"}
	trace := timer.Trace{Parent: "00-01000000000000000000000000000000-0200000000000000-01", State: "a=b"}
	schedule := timer.ScheduleTimer{Key: key, Version: version, DueAt: noon, CorrelationID: "req-7", Trace: trace, Data: `{"n": 1}`}
	event := fired("order-1")
	event.Trace = trace
	return []any{
		schedule,
		timer.ScheduleTimers{TenantID: "acme", Version: version, Commands: []timer.ScheduleTimer{schedule}},
		timer.CancelTimer{Key: key, Version: version, CorrelationID: "req-7", Trace: trace},
		timer.CancelTimers{TenantID: "acme", Version: version, Of: timer.Selection{Prefix: "order-1."}, CorrelationID: "req-7", Trace: trace},
		timer.RescheduleTimers{TenantID: "acme", Version: version, Of: timer.Selection{CorrelationID: "req-7"}, DueAt: noon, CorrelationID: "req-7", Trace: trace},
		event,
	}
}

func TestMarshalerReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	m := client.Marshaler{}
	for _, v := range ofEach() {
		pointer := reflect.New(reflect.TypeOf(v))
		pointer.Elem().Set(reflect.ValueOf(v))
		for _, given := range []any{v, pointer.Interface()} {
			msg, err := m.Marshal(given)
			must(t, err)
			got := reflect.New(reflect.TypeOf(v))
			must(t, m.Unmarshal(msg, got.Interface()))
			if diff := cmp.Diff(v, got.Elem().Interface()); diff != "" {
				t.Error(diff)
			}
			name := reflect.TypeOf(v).Name()
			if m.Name(given) != name || m.NameFromMessage(msg) != name || m.NameFromMessage(message.NewMessage("id", msg.Payload)) != name {
				t.Errorf("the name of a %T is %s, that of its message %s", given, m.Name(given), m.NameFromMessage(msg))
			}
			for _, other := range ofEach() {
				if into := reflect.New(reflect.TypeOf(other)); into.Type() != got.Type() && !client.IsInvalid(m.Unmarshal(msg, into.Interface())) {
					t.Errorf("a %T was read as a %T", v, other)
				}
			}
		}
	}
}

func TestMarshalerCompletesCommands(t *testing.T) {
	t.Parallel()
	m := client.Marshaler{Clock: at(noon)}
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	for _, v := range []any{client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon}, timer.ScheduleTimer{Key: key, DueAt: noon}, &timer.CancelTimer{Key: key}} {
		msg, err := m.Marshal(v)
		must(t, err)
		decoded, err := envelope.Decode(msg.Payload)
		if err != nil || decoded.ID == "" || decoded.ID != msg.UUID || decoded.TimestampMS != noon.UnixMilli() {
			t.Errorf("%T: id %q, timestampMs %d, error %v", v, decoded.ID, decoded.TimestampMS, err)
		}
	}
	if got := m.Name(&client.Timer{}); got != "ScheduleTimer" {
		t.Errorf("the name of a Timer is %s", got)
	}
}

func TestMarshalerRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	m := client.Marshaler{Clock: at(noon)}
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	early := fired("order-1")
	early.DueAt = early.DueAt.AddDate(-100, 0, 0)
	for _, v := range []any{
		client.Timer{TenantID: "acme"},
		client.Timer{TenantID: "acme", ServiceCallID: "order-1"},
		client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon, After: 1},
		timer.ScheduleTimer{Key: key},
		timer.ScheduleTimer{Key: key, DueAt: noon, Data: "{"},
		timer.CancelTimer{},
		timer.ScheduleTimers{TenantID: "acme"},
		early, "a text", nil,
	} {
		if _, err := m.Marshal(v); !client.IsInvalid(err) {
			t.Errorf("%v: %v, want an ErrInvalid", v, err)
		}
	}
	if err := m.Unmarshal(message.NewMessage("id", []byte("hello")), new(timer.DueTimeReached)); !client.IsInvalid(err) {
		t.Error(err)
	}
	if name := m.NameFromMessage(message.NewMessage("id", []byte("hello"))); name != "" {
		t.Errorf("the name of an unreadable message is %s", name)
	}
}
