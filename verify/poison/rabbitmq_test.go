package poison_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash"
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
		s.want.correlation = "true" // the driver makes text of them
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
		s.want.replays = 1 + g.IntN(3)
		return s.under(amqp.Table{"deadLetterReplays": fmt.Sprint(s.want.replays)})
	}},
	{"headers that our driver sets", func(g *gunner) shot {
		return g.any().under(amqp.Table{"broker_topic": "svc.victim.q", "broker_position": "1", "broker_delivery": "9", "x-timer-attempt": "99", "_watermill_message_uuid": "forged"})
	}},
	{"a correlation in the header", func(g *gunner) shot {
		s := g.any()
		s.want.correlation = "one"
		return s.under(amqp.Table{"correlationId": "one"})
	}},
	{"a broken correlation in the header", func(g *gunner) shot {
		return g.any().under(amqp.Table{"correlationId": g.pick("a b", "é", "\x00", "\xff\xfe", strings.Repeat("c", 129), "", "\u202e", "a\rb")})
	}},
}

// under adds headers to a message.
func (s shot) under(headers amqp.Table) shot { s.table = headers; return s }

// A letter is what is known of a dead letter before it is there.
type letter struct {
	tenant, reason, replays string
	body                    [sha256.Size]byte
}

// A rabbitWorld is a RabbitMQ server and the service.
type rabbitWorld struct {
	*world
	conn    *amqp.Connection
	letters map[letter]int    // that must come, less those that came
	events  map[key]want      // that must come
	made    map[letter]string // kinds
	fired   map[key]bool
	again   int // dead letters that came more than once
	in      <-chan amqp.Delivery
	latest  time.Duration
}

func beginRabbitMQ(t *testing.T) *rabbitWorld {
	t.Helper()
	server := harness.StartBroker(t, crash.RabbitMQ)
	w := &rabbitWorld{world: &world{T: t}, letters: make(map[letter]int), events: make(map[key]want), made: make(map[letter]string), fired: make(map[key]bool)}
	w.startService(append(server.Settings(), unlimited...))
	var err error
	w.conn, err = amqp.Dial(server.URL())
	harness.Must(t, err)
	t.Cleanup(func() { w.conn.Close() })
	t.Logf("RabbitMQ %v", w.conn.Properties["version"])
	ch := w.channel()
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	harness.Must(t, err)
	for _, tenant := range append(tenants[:], "_", "victim") {
		for _, kind := range []string{".q", ".dlq"} {
			harness.Must(t, ch.QueueBind(queue.Name, "svc."+tenant+kind, "svc.direct", false, nil))
		}
	}
	w.in, err = ch.Consume(queue.Name, "", true, true, false, false, nil)
	harness.Must(t, err)
	return w
}

func (w *rabbitWorld) channel() *amqp.Channel {
	w.Helper()
	ch, err := w.conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	harness.Must(w, err)
	return ch
}

// expect notes what must become of a message.
func (w *rabbitWorld) expect(s shot) {
	switch s.want.fate {
	case deadLettered:
		body := s.body
		if len(body) > 1<<20 { // a dead letter has a shorter body then
			body = body[:maxBytes]
		}
		l := letter{s.want.tenant, s.want.reason, fmt.Sprint(s.want.replays), sha256.Sum256(body)}
		w.letters[l]++
		w.made[l] = s.kind
	case fires:
		w.events[key{s.want.tenant, s.want.call}] = s.want
	}
}

// judge compares a message of the service with what must come.
func (w *rabbitWorld) judge(d amqp.Delivery) {
	tenant := strings.TrimPrefix(d.RoutingKey, "svc.")
	if tenant, is := strings.CutSuffix(tenant, ".dlq"); is {
		l := letter{tenant, fmt.Sprint(d.Headers["deadLetterReason"]), fmt.Sprint(d.Headers["deadLetterReplays"]), sha256.Sum256(d.Body)}
		if w.letters[l]--; w.letters[l] == 0 {
			delete(w.letters, l)
		} else if w.letters[l] < 0 {
			delete(w.letters, l)
			if w.again++; w.made[l] == "" {
				w.Errorf("a dead letter that should not be there: %v %.200q", d.Headers, d.Body)
			}
		}
		return
	}
	decoded, err := envelope.Decode(d.Body)
	e, ok := decoded.Payload.(timer.DueTimeReached)
	k := key{string(e.TenantID), string(e.ServiceCallID)}
	switch want, asked := w.events[k]; {
	case err != nil || !ok || d.RoutingKey != "svc."+k.tenant+".q":
		w.Errorf("on %s came %v %.200q: %v", d.RoutingKey, d.Headers, d.Body, err)
	case w.fired[k]:
		w.Errorf("%v fired twice", k)
	case !asked:
		w.Errorf("%v fired for nothing", k)
	case !e.DueAt.Equal(want.dueAt) || e.CorrelationID != want.correlation || e.ReachedAt.Before(e.DueAt):
		w.Errorf("the event is %+v, want %+v", e, want)
	default:
		w.latest = max(w.latest, e.ReachedAt.Sub(e.DueAt))
	}
	for name := range d.Headers {
		switch name {
		case "type", "tenantId", "serviceCallId", "messageId", "correlationId", "traceparent", "tracestate":
		default:
			w.Errorf("an event of %v has the header %q", k, name)
		}
	}
	w.fired[k] = true
}

// send publishes messages of a gunner, and waits for all confirms.
func (w *rabbitWorld) send(ch *amqp.Channel, g *gunner, n, burst int, next func(*gunner, int) shot, report func(shot)) error {
	tick := time.NewTicker(75 * time.Millisecond)
	defer tick.Stop()
	var last *amqp.DeferredConfirmation
	for i := range n {
		if i%burst == 0 {
			<-tick.C
		}
		g.now = time.Now()
		s := next(g, i)
		report(s)
		confirm, err := ch.PublishWithDeferredConfirm("svc.direct.commands", commandsTopic, true, false, amqp.Publishing{Headers: s.table, Body: s.body})
		if err != nil {
			return err
		}
		if last = confirm; i%inFlight == 0 {
			<-last.Done()
		}
	}
	<-last.Done()
	return nil
}

// TestPoisonHarmsNobodyOnRabbitMQ is TestPoisonHarmsNobody with the headers of RabbitMQ.
func TestPoisonHarmsNobodyOnRabbitMQ(t *testing.T) {
	seed, n := campaign(t)
	w := beginRabbitMQ(t)
	began := time.Now()
	shots, done := make(chan shot), make(chan error, 3)
	report := func(s shot) { shots <- s }
	for _, name := range []string{"evil0", "evil1"} {
		g := newGunner(seed, name)
		g.headers = rabbitHeaders
		ch := w.channel()
		go func() { done <- w.send(ch, g, n/2, 25, (*gunner).hostile, report) }()
	}
	good, ch := newGunner(seed, "good"), w.channel()
	go func() {
		done <- w.send(ch, good, n, 50, func(g *gunner, _ int) shot {
			s := g.command().good()
			s.kind = "good"
			return s
		}, report)
	}()
	late := time.After(10 * time.Minute)
	for senders := 3; senders > 0 || len(w.letters) > 0 || len(w.fired) < len(w.events); {
		select {
		case s := <-shots:
			w.expect(s)
		case err := <-done:
			if senders--; err != nil {
				t.Fatal(err)
			}
		case d := <-w.in:
			w.judge(d)
		case <-late:
			t.Fatalf("%d dead letters and %d events are missing", len(w.letters), len(w.events)-len(w.fired))
		}
	}
	w.stop()
	for len(w.in) > 0 {
		w.judge(<-w.in)
	}
	t.Logf("%d messages in %v, %d events, the latest %v late", 2*n, time.Since(began).Round(time.Millisecond), len(w.fired), w.latest)
	var lines []string
	for _, l := range w.service.Lines() {
		if !strings.Contains(l.Text, `msg="messages refused`) {
			lines = append(lines, l.Text)
		}
	}
	if len(lines) > maxLines {
		t.Errorf("%d lines in the log of the service: hostile messages must not fill it", len(lines))
	}
	// RabbitMQ drops no repetition. If a confirm is late, the service says so, and the original
	// becomes a dead letter again.
	if text := strings.Join(lines, "\n"); w.again > 0 && !strings.Contains(text, "they come again") && !strings.Contains(text, "will retry") {
		t.Errorf("%d dead letters came again, and the service says nothing of a failure", w.again)
	}
	t.Logf("%d dead letters came again", w.again)
	t.Logf("the service says, but for refusals:\n%s", strings.Join(lines[:min(len(lines), maxLines)], "\n"))
}
