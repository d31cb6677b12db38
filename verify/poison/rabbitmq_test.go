package poison_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// nested returns a table or a list of a depth, which some clients can't read.
func nested(depth int) any {
	switch {
	case depth == 0:
		return "bottom"
	case depth%2 == 0:
		return []any{nested(depth - 1)}
	}
	return amqp.Table{"t": nested(depth - 1)}
}

// rabbitHeaders are hostile headers of RabbitMQ, with valid bodies and invalid ones. CC and
// BCC are not among them: by these the server itself routes a message to other queues.
var rabbitHeaders = []kind{
	{"headers that the server or its plugins know", func(g *gunner) shot {
		name := g.pick("x-death", "x-delay", "x-message-ttl", "x-match", "x-delivery-count", "x-acquired-count", "x-first-death-queue", "x-opt-delivery-delay", "x-stream-offset", "x-retry-count")
		return g.any().under(amqp.Table{name: []any{amqp.Table{"count": int64(99), "queue": "svc.acme.q", "reason": "rejected"}}, "x-priority": int64(255)})
	}},
	{"headers of every type", func(g *gunner) shot {
		s := g.any()
		s.Correlation = "true" // the driver makes text of them
		return s.under(amqp.Table{
			"tenantId": int64(7), "correlationId": true, "traceparent": []byte("\xff"), "deadLetterReplays": amqp.Table{"a": 1},
			"type": []any{1}, "messageId": time.Unix(0, 0), "decimal": amqp.Decimal{Scale: 2, Value: 5}, "nil": nil, "": "no name",
		})
	}},
	{"deep headers", func(g *gunner) shot { return g.any().under(amqp.Table{"deep": nested(20 + g.IntN(5_000))}) }},
	{"thousands of headers", func(g *gunner) shot {
		all := make(amqp.Table)
		for i := range 7_000 {
			all[fmt.Sprintf("%x", i)] = ""
		}
		return g.any().under(all)
	}},
	{"headers that claim another tenant", func(g *gunner) shot {
		return g.any().under(amqp.Table{"tenantId": g.tenant(), "serviceCallId": "victim", "type": g.pick("DueTimeReached", "DeadLetter"), "messageId": "x"})
	}},
	{"headers of a dead letter", func(g *gunner) shot {
		return g.any().under(amqp.Table{
			"type": "DeadLetter", "tenantId": "victim", "deadLetterReason": "forged", "deadLetterDetail": "forged", "deadLetterTopic": "svc.acme.q",
			"deadLetterOriginalId": "forged", "deadLetterFirstAt": "2000-01-01T00:00:00Z", "deadLetterCount": "99", "deadLetterTruncated": "true",
			"deadLetterReplays": g.pick("-1", "x", "1e3", "99999999999999999999", "1001", ""),
		})
	}},
	{"headers of a replay", func(g *gunner) shot {
		s := g.any()
		s.replays = 1 + g.IntN(3)
		return s.under(amqp.Table{"deadLetterReplays": fmt.Sprint(s.replays)})
	}},
	{"headers that our driver sets", func(g *gunner) shot {
		return g.any().under(amqp.Table{"broker_topic": "svc.victim.q", "broker_position": "1", "broker_delivery": "9", "x-timer-attempt": "99", "_watermill_message_uuid": "forged"})
	}},
	{"a correlation in the header", func(g *gunner) shot {
		s := g.any()
		s.Correlation = "one"
		return s.under(amqp.Table{"correlationId": "one"})
	}},
	{"a broken correlation in the header", func(g *gunner) shot {
		return g.any().under(amqp.Table{"correlationId": g.pick("a b", "é", "\x00", "\xff\xfe", strings.Repeat("c", 129), "", "\u202e", "a\rb")})
	}},
}

// under adds headers to a message.
func (s shot) under(headers amqp.Table) shot { s.table = headers; return s }

// TestPoisonHarmsNobodyOnRabbitMQ is TestPoisonHarmsNobody with the headers of RabbitMQ.
func TestPoisonHarmsNobodyOnRabbitMQ(t *testing.T) {
	server := harness.StartBroker(t, crash.RabbitMQ)
	w := &world{T: t}
	w.startService(append(server.Settings(), unlimited...))
	conn, err := amqp.Dial(server.URL())
	harness.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Logf("RabbitMQ %v", conn.Properties["version"])
	open := func() *amqp.Channel {
		ch, err := conn.Channel()
		harness.Must(t, err)
		harness.Must(t, ch.Confirm(false))
		return ch
	}
	in := open()
	queue, err := in.QueueDeclare("", false, true, true, false, nil)
	harness.Must(t, err)
	for _, tenant := range append(tenants[:], "_", "victim") {
		for _, kind := range []string{".q", ".dlq"} {
			harness.Must(t, in.QueueBind(queue.Name, "svc."+tenant+kind, "svc.direct", false, nil))
		}
	}
	deliveries, err := in.Consume(queue.Name, "", true, true, false, false, nil)
	harness.Must(t, err)
	began := time.Now()
	var mu sync.Mutex
	var messages []history.Message
	go func() {
		for d := range deliveries {
			mu.Lock()
			messages = append(messages, fromRabbitMQ(d, len(messages)))
			mu.Unlock()
		}
	}()
	shots := w.attack(rabbitHeaders, func(string, string) sender { return &channel{Channel: open()} })
	want := 0 // messages of the service
	for _, s := range shots {
		if len(s.Body) > 1<<20 { // a dead letter has a shorter body then
			s.Body = s.Body[:maxBytes]
		}
		if s.Kind != history.Foreign {
			want++
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	came := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(messages)
	}
	if pause.Until(ctx, func() (bool, error) { return came() >= want, nil }) != nil {
		t.Errorf("%d of %d messages came", came(), want)
	}
	w.stop()
	harness.Must(t, in.Close()) // ends the deliveries
	mu.Lock()
	defer mu.Unlock()
	w.judge(shots, messages)
	// RabbitMQ drops no repetition. If a confirm is late, the service says so, and the original
	// becomes a dead letter again.
	others := w.checkLog(began)
	if again := len(messages) - want; again > 0 && !strings.Contains(others, "they come again") && !strings.Contains(others, "will retry") {
		t.Errorf("%d messages came again, and the service says nothing of a failure", again)
	}
	t.Logf("%d messages came in %v; the service says, apart from refusals:\n%s", len(messages), time.Since(began).Round(time.Millisecond), others)
}

// fromRabbitMQ returns the nth message of the service as package history has it: with the topics of NATS.
func fromRabbitMQ(d amqp.Delivery, n int) history.Message {
	m := history.Message{Topic: d.RoutingKey, Seq: uint64(n) + 1, At: time.Now(), Header: map[string]string{history.DedupeHeader: d.MessageId}, Body: d.Body}
	if tenant, is := strings.CutSuffix(d.RoutingKey, ".q"); is {
		m.Topic = tenant + ".serviceCall"
	}
	for name, value := range d.Headers {
		m.Header[name] = fmt.Sprint(value)
	}
	return m
}
