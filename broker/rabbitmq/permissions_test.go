package rabbitmq_test

import (
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// page reads docs/brokers/rabbitmq.md.
func page(t testing.TB) rabbitd.Page {
	t.Helper()
	p, err := rabbitd.ReadPage("../../docs/brokers/rabbitmq.md")
	must(t, err)
	return p
}

// documented returns the options of a new user with the permissions of the page.
func (o *own) documented(who string) rabbitmq.Options {
	o.Helper()
	rule, err := page(o).Rule(who)
	must(o, err)
	return rabbitmq.Options{URL: o.user(rule)}
}

// user adds a user and returns its URL.
func (o *own) user(rule rabbitd.Rule) string {
	o.Helper()
	address, err := o.AddUser(o.Context(), "user-"+name(), rule)
	must(o, err)
	return address
}

// The users have the permissions that docs/brokers/rabbitmq.md lists.
func TestDocumentedPermissionsAreEnough(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	service := r.ready(o.documented("service, `provision: create`"))
	commands := subscribe(t, service, "timer-service", "timer.commands")
	mine := broker.Owner{Database: "mine", Broker: "here", Name: "sqlite mine.db"}
	if got, err := service.Claim(t.Context(), "timer-service", mine, false); err != nil || got != mine {
		t.Errorf("the owner is %v, %v", got, err)
	}

	client := func(who string) *rabbitmq.Broker {
		opt := o.documented(who)
		opt.Client = true
		return r.ready(opt)
	}
	events, err := client("an operator who listens to all tenants").Tail().Subscribe(t.Context(), "svc.acme.q")
	must(t, err)
	publish(t, service, "timer.commands", "command")
	expect(t, commands, "command")
	publish(t, service, "svc.acme.q", "event")
	expect(t, events, "event")

	publish(t, client("a producer"), "timer.commands", "another")
	expect(t, commands, "another")
	expect(t, subscribe(t, client("a consumer of a tenant"), "timer-service", "svc.acme.q"), "event")
	publish(t, service, "svc.acme.receipts", "receipt")
	expect(t, subscribe(t, client("a consumer of its receipts"), "timer-service", "svc.acme.receipts"), "receipt")

	opt := o.documented("service, `provision: verify`")
	opt.Verify = true
	verified := r.ready(opt)
	if got, err := verified.Claim(t.Context(), "timer-service", broker.Owner{Database: "other"}, false); err != nil || got != mine {
		t.Errorf("for who verifies the owner is %v, %v", got, err)
	}
	if changes, err := rabbitmq.New(opt, quiet).Provision(t.Context(), true); err != nil || len(changes) > 0 { // as doctor asks
		t.Errorf("a dry provision of who verifies: %v, %v", changes, err)
	}
	if found, err := rabbitmq.New(opt, quiet).Inspect(t.Context(), "timer-service"); err != nil || found.Owner.Database != mine.Database {
		t.Errorf("an inspection of who verifies: %+v, %v", found, err)
	}
	publish(t, verified, "svc.acme.q", "event of the other")
	subscribe(t, verified, "timer-service", "timer.commands")
	none := publishes(verified, "svc.new.q", "lost")
	if none == nil || !strings.Contains(none.Error(), "svc.new.q") {
		t.Errorf("a tenant without a queue: %v, want an error that names it", none)
	}

	publish(t, service, "svc.acme.dlq", "dead letter")
	if _, err := letters(verified); !errors.Is(err, broker.ErrDenied) || !strings.Contains(err.Error(), "svc.acme.dlq") {
		t.Errorf("dead letters without the optional permissions: %v", err)
	}
	if _, err := verified.Tail().Subscribe(t.Context(), "svc.acme.q"); !errors.Is(err, broker.ErrDenied) {
		t.Errorf("a tail without the optional permissions: %v", err)
	}
	for _, who := range []string{"the same, optional: the API, the page and `dlq` read, replay and discard dead letters", "the same, optional: `timer-service tail`, and `?wait` of the API, too"} {
		opt = o.documented(who)
		opt.Verify = true
		b := r.ready(opt)
		if all, err := letters(b); len(all) != 1 || err != nil {
			t.Errorf("%s: dead letters %q, %v", who, all, err)
		}
		if _, err := b.Tail().Subscribe(t.Context(), "svc.acme.q"); err != nil != strings.Contains(who, "dlq") {
			t.Errorf("%s: a tail: %v", who, err)
		}
	}
	if err := publishes(client("a consumer of a tenant"), "timer.commands", "forged"); !errors.Is(err, broker.ErrDenied) {
		t.Errorf("a consumer publishes: %v", err)
	}
}

// The users have the topic permissions that the page has for producers of a tenant.
func TestProducersCommandTheirTenantAlone(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	r.opt.Routing.Commands = "svc.{tenant}.timer"
	service := r.ready(r.opt)
	tail := tailOf(t, service, "svc.*.timer")
	commands := subscribe(t, service, "timer-service", r.opt.Routing.Subscription())
	publish(t, service, "svc.globex.timer", "of the API")
	expectOn(t, commands, "svc.globex.timer", "of the API")

	opt := o.documented("a producer")
	opt.Client, opt.Routing = true, r.opt.Routing
	u, err := url.Parse(opt.URL)
	must(t, err)
	permit, err := page(t).TopicPermissions(u.User.Username())
	must(t, err)
	o.ctl(permit...)
	producer := r.ready(opt)
	publish(t, producer, "svc.acme.timer", "command")
	expectOn(t, commands, "svc.acme.timer", "command")
	if err := publishes(producer, "svc.globex.timer", "forged"); !errors.Is(err, broker.ErrDenied) {
		t.Errorf("a command of another tenant: %v", err)
	}
	h := o.hostile(opt.URL)
	for _, header := range []string{"CC", "BCC"} { // RabbitMQ 4 refuses both, 3.10 the second
		h.publish("svc.direct.commands", "svc.acme.timer", amqp.Table{header: []any{"svc.globex.timer"}})
		h.publish("svc.direct.commands", "svc.globex.timer", amqp.Table{header: []any{"svc.acme.timer"}})
	}
	for _, key := range []string{"svc.globex.timer", "svc.*.timer", "#"} {
		h.publish("svc.direct.commands", key, nil)
		h.listen("svc.direct.commands", key)
	}
	if len(h.bound) > 0 {
		t.Errorf("a producer listens: %v", h.bound)
	}
	publish(t, service, "svc.globex.timer", "last")
	for _, received := range []<-chan *message.Message{commands, tail} {
		for body := ""; body != "last"; {
			msg := next(t, received)
			msg.Ack()
			// The service compares the topic with the tenant in the body.
			if body = string(msg.Payload); body == "forged" && msg.Metadata.Get(broker.MetaTopic) != "svc.acme.timer" {
				t.Errorf("a command of acme came on %s", msg.Metadata.Get(broker.MetaTopic))
			}
		}
	}
}

func tailOf(t *testing.T, b *rabbitmq.Broker, topic string) <-chan *message.Message {
	t.Helper()
	messages, err := b.Tail().Subscribe(t.Context(), topic)
	must(t, err)
	return messages
}

func expectOn(t *testing.T, messages <-chan *message.Message, topic, body string) {
	t.Helper()
	msg := next(t, messages)
	msg.Ack()
	if got := msg.Metadata.Get(broker.MetaTopic); got != topic || string(msg.Payload) != body {
		t.Errorf("got %q on %s, want %q on %s", msg.Payload, got, body, topic)
	}
}

// Version 0.1.0 had one exchange. Its bindings, and programs that publish there, go on.
func TestUpgradeFromOneExchange(t *testing.T) {
	t.Parallel()
	r := open(t)
	commands, events, own := r.opt.Routing.Commands, r.topic(), r.topic()+".billing"
	must(t, r.raw.ExchangeDeclare(r.opt.Exchange, "direct", true, false, false, false, nil))
	for _, queue := range []string{commands, events, own} {
		r.queue(queue, nil)
	}
	must(t, r.raw.QueueBind(own, events, r.opt.Exchange, false, nil))
	send := func(exchange, key, body string) {
		t.Helper()
		must(t, r.raw.PublishWithContext(t.Context(), exchange, key, true, false, amqp.Publishing{Body: []byte(body)}))
	}
	send(r.opt.Exchange, commands, "before")
	send(r.opt.Exchange, events, "before")

	service := r.ready(r.opt)
	tail := tailOf(t, service, commands)
	received := subscribe(t, service, "timer-service", commands)
	expect(t, received, "before")
	for _, exchange := range []string{r.opt.Exchange, r.opt.Exchange + ".commands", ""} {
		send(exchange, commands, "to "+exchange)
		expect(t, received, "to "+exchange)
	}
	publish(t, service, commands, "after")
	expect(t, received, "after")
	publish(t, service, events, "after")
	send(r.opt.Exchange, events, "of an instance of 0.1.0")
	for _, queue := range []string{events, own} {
		got := make(map[string]int)
		messages := subscribe(t, service, "timer-service", queue)
		for range 3 {
			msg := next(t, messages)
			msg.Ack()
			got[string(msg.Payload)]++
		}
		if want := map[string]int{"before": 1, "after": 1, "of an instance of 0.1.0": 1}; !maps.Equal(got, want) {
			t.Errorf("queue %s got %v, want %v", queue, got, want)
		}
	}
	for _, want := range []string{"to " + r.opt.Exchange, "to " + r.opt.Exchange + ".commands", "after"} {
		expect(t, tail, want)
	}
}

// exchanges are the exchanges of a server and of the service.
var exchanges = []string{"", "amq.direct", "amq.topic", "amq.fanout", "amq.headers", "svc.direct", "svc.direct.commands"}

// Users of the tenant acme try forbidden requests, each with all that the table gives them.
func TestTenantsNeitherForgeNorRead(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	service := r.ready(r.opt)
	foreign := []string{"svc.globex.q", "svc.globex.receipts", "svc.globex.dlq", "svc._.dlq"}
	queues := append([]string{"svc.acme.q", "svc.acme.dlq"}, foreign...)
	for _, rule := range page(t).Rules() {
		if !strings.HasPrefix(rule.Who, "a ") {
			continue
		}
		for _, queue := range queues {
			publish(t, service, queue, "real")
		}
		h := o.hostile(o.user(rule))
		for _, exchange := range exchanges {
			for _, queue := range queues {
				h.publish(exchange, queue, nil)
				h.publish(exchange, "timer.commands", amqp.Table{"CC": []any{queue}})
				h.publish(exchange, "timer.commands", amqp.Table{"BCC": []any{queue}})
			}
			for _, key := range append(foreign, "timer.commands", "#") {
				h.listen(exchange, key)
				h.try(func(ch *amqp.Channel) error { return ch.QueueBind("svc.acme.q", key, exchange, false, nil) })
				h.try(func(ch *amqp.Channel) error { return ch.ExchangeBind(exchange, key, "svc.direct", false, nil) })
				h.try(func(ch *amqp.Channel) error { return ch.QueueUnbind("timer.commands", key, exchange, nil) })
			}
			h.try(func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, false, false) })
		}
		for _, queue := range foreign {
			h.try(func(ch *amqp.Channel) error { _, err := ch.QueuePurge(queue, false); return err })
			h.try(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, false, false); return err })
			h.try(func(ch *amqp.Channel) error { return h.read(ch, queue) })
		}
		holds := func(n int) {
			t.Helper()
			for _, queue := range queues {
				if got := r.count(queue); got != n {
					t.Errorf("%s: queue %s has %d messages, want the %d of the service", rule.Who, queue, got, n)
				}
			}
		}
		holds(1)
		for _, queue := range queues {
			publish(t, service, queue, "secret")
		}
		holds(2)
		for queue, ch := range h.bound {
			if err := h.read(ch, queue); err != nil {
				t.Error(err)
			}
		}
		if len(h.heard) > 0 {
			t.Errorf("%s: it reads %q", rule.Who, h.heard)
		}
		for _, queue := range queues {
			if _, err := r.raw.QueuePurge(queue, false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A hostileUser is a user who tries forbidden requests.
type hostileUser struct {
	testing.TB
	conn  *amqp.Connection
	bound map[string]*amqp.Channel // queues of its own that the server has bound
	heard []string                 // keys of the messages that it has read
}

func (o *own) hostile(url string) *hostileUser {
	o.Helper()
	conn, err := amqp.Dial(url)
	must(o, err)
	o.Cleanup(func() { conn.Close() })
	return &hostileUser{TB: o, conn: conn, bound: make(map[string]*amqp.Channel)}
}

// try does something on a channel of its own. It returns nil if the server refuses.
func (h *hostileUser) try(f func(*amqp.Channel) error) *amqp.Channel {
	h.Helper()
	ch, err := h.conn.Channel()
	must(h, err)
	if f(ch) != nil {
		return nil
	}
	return ch
}

func (h *hostileUser) publish(exchange, key string, headers amqp.Table) {
	h.Helper()
	ch := h.try(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, amqp.Publishing{Headers: headers, Body: []byte("forged")})
		if err == nil {
			confirm.Wait()
		}
		return err
	})
	if ch != nil {
		_ = ch.Close() // the server may have closed it already
	}
}

func (h *hostileUser) listen(exchange, key string) {
	h.Helper()
	var name string
	if ch := h.try(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		if err != nil {
			return err
		}
		name = q.Name
		return ch.QueueBind(q.Name, key, exchange, false, nil)
	}); ch != nil {
		h.bound[name] = ch
	}
}

// read notes the messages of a queue.
func (h *hostileUser) read(ch *amqp.Channel, queue string) error {
	for {
		in, ok, err := ch.Get(queue, true)
		if err != nil || !ok {
			return err
		}
		h.heard = append(h.heard, in.RoutingKey)
	}
}
