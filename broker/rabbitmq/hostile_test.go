package rabbitmq_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// send publishes as another program does.
func (r *rabbit) send(p amqp.Publishing) {
	r.Helper()
	must(r, r.raw.PublishWithContext(r.Context(), "", r.opt.Routing.Commands, false, false, p))
}

func nested(depth int) any {
	if depth == 0 {
		return "bottom"
	}
	if depth%2 == 0 {
		return []any{nested(depth - 1)}
	}
	return amqp.Table{"t": nested(depth - 1)}
}

func TestForeignHeadersOfEveryTypeAreTextOrLeftOut(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	tail, err := b.Tail().Subscribe(t.Context(), r.opt.Routing.Commands)
	must(t, err)
	r.send(amqp.Publishing{
		Headers: amqp.Table{
			"string": "s", "bytes": []byte("b\xff"), "bool": true, "nil": nil, "i8": int8(-8), "u8": byte(8), "i16": int16(-16), "u16": uint16(16),
			"i32": int32(-32), "u32": uint32(32), "i64": int64(-64), "f32": float32(0.5), "f64": 0.25, "decimal": amqp.Decimal{Scale: 2, Value: 5},
			"time": time.Unix(0, 0), "table": amqp.Table{"a": 1}, "list": []any{1, "a"}, "empty": "", "": "no name", "long": strings.Repeat("v", 100_000),
			broker.MetaTopic: "svc.evil.q", broker.MetaPosition: "1", broker.MetaDelivery: "77", "CC": []any{r.opt.Routing.Commands + "-elsewhere"}, "x-death": "evil",
		},
		MessageId: "the id", CorrelationId: "the correlation", Type: "ScheduleTimer", ContentType: "text/plain", Body: []byte("{}"),
	})
	got := next(t, commands)
	got.Ack()
	want := map[string]string{
		"string": "s", "bytes": "b\xff", "bool": "true", "i8": "-8", "u8": "8", "i16": "-16", "u16": "16", "i32": "-32", "u32": "32", "i64": "-64",
		"f32": "0.5", "f64": "0.25", "time": "1970-01-01T00:00:00Z", "empty": "", "long": strings.Repeat("v", 100_000),
		envelope.HeaderCorrelationID: "the correlation", envelope.HeaderType: "ScheduleTimer", envelope.HeaderContentType: "text/plain",
		broker.MetaTopic: r.opt.Routing.Commands, broker.MetaDelivery: "1",
	}
	for name, value := range want {
		if got.Metadata[name] != value {
			t.Errorf("header %s is %.20q, want %.20q", name, got.Metadata[name], value)
		}
		delete(got.Metadata, name)
	}
	if got.UUID != "the id" || len(got.Metadata) > 0 {
		t.Errorf("id %s, and other headers: %v", got.UUID, got.Metadata)
	}
	select {
	case msg := <-tail:
		t.Errorf("the default exchange reached a tail: %v", msg)
	default:
	}
}

// A message whose headers the client library can't read ends the connection, is
// given back, and would end the next one.
func TestHeadersThatKillConnectionsAreTakenOut(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	fields := amqp.Table{"kept": "yes"}
	for i := range 9000 {
		fields[strconv.Itoa(i)] = true
	}
	for i, headers := range []amqp.Table{
		fields, {"deep": nested(10), "kept": "yes"}, {"deep": nested(40), "kept": "yes"}, {"kept": "yes", "deep": nested(5000)}, {"many": make([]any, 30_000), "kept": "yes"},
	} {
		r.send(amqp.Publishing{Headers: headers, MessageId: "evil", CorrelationId: "corr", ContentType: "a", ContentEncoding: "b", ReplyTo: "c", Type: "d", AppId: "e", Body: []byte("evil")})
		msg := next(t, commands)
		if msg.UUID != "evil" || string(msg.Payload) != "evil" || msg.Metadata.Get(envelope.HeaderCorrelationID) != "corr" || msg.Metadata.Get("type") != "d" {
			t.Errorf("headers %d: got %v", i, msg)
		}
		if kept := msg.Metadata.Get("kept"); (kept == "yes") != (i > 0) {
			t.Errorf("headers %d: kept is %q", i, kept)
		}
		if times := msg.Metadata.Get(broker.MetaDelivery); times != "1" {
			t.Errorf("headers %d: delivery %s", i, times)
		}
		msg.Ack()
		r.send(amqp.Publishing{Body: []byte("good")})
		expect(t, commands, "good")
	}
}
