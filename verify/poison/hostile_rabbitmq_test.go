package poison_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A rabbitAttack is a tenant that has a user for each of the rules of the page.
type rabbitAttack struct {
	*victim
	urls      []string
	confirmed atomic.Int64 // messages of the flood
}

// TestHostileTenantOnRabbitMQ has a tenant use as much as it can, with the rules of
// docs/brokers/rabbitmq.md for commands of each tenant. That it neither forges nor reads
// what is of another one, the tests of the driver show.
func TestHostileTenantOnRabbitMQ(t *testing.T) {
	longtest.Skip(t, "starts a RabbitMQ server")
	server, err := rabbitd.Start(context.WithoutCancel(t.Context()), t.TempDir(), harness.Port(t))
	harness.Need(t, err)
	t.Cleanup(server.Kill)
	page, err := rabbitd.ReadPage(filepath.Join(pages, "rabbitmq.md"))
	harness.Must(t, err)
	user := func(tenant, who string) string {
		t.Helper()
		rule, err := page.Rule(who)
		harness.Must(t, err)
		for i, pattern := range rule.Patterns { // as the page says for this topic of commands
			pattern = strings.ReplaceAll(pattern, `timer\.commands`, `svc\._\.timer`)
			rule.Patterns[i] = strings.ReplaceAll(pattern, attacker, tenant)
		}
		name := "user-" + uuid.NewString()
		address, err := server.AddUser(t.Context(), name, rule)
		harness.Must(t, err)
		if who == "a producer" {
			permit, err := page.TopicPermissions(name)
			harness.Must(t, err)
			for i := range permit {
				permit[i] = strings.ReplaceAll(permit[i], attacker, tenant)
			}
			if _, err := server.Tool(t.Context(), "rabbitmqctl", permit...); err != nil {
				t.Fatal(err)
			}
		}
		return address
	}
	v := newVictim(t, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+user("", "service, `provision: create`"), "TIMER_COMMANDS_TOPIC=svc.{tenant}.timer", "TIMER_RECEIPTS=true")
	out := v.channel(user(victims, "a producer"))
	harness.Must(t, out.Confirm(false))
	v.publish = func(body []byte) error {
		confirm, err := out.PublishWithDeferredConfirm("svc.direct.commands", "svc."+victims+".timer", true, false, amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent})
		if err == nil && !confirm.Wait() {
			err = errors.New("the server does not confirm it")
		}
		return err
	}
	v.consume(user(victims, "a consumer of a tenant"))

	a := &rabbitAttack{victim: v}
	for _, who := range []string{"a producer", "a consumer of a tenant", "a consumer of its receipts"} {
		a.urls = append(a.urls, user(attacker, who))
	}
	v.suffers(a.flood, a.flood, a.useMuch)
	t.Logf("%s sent %d commands", attacker, a.confirmed.Load())
}

// channel opens a channel on a connection of its own.
func (v *victim) channel(url string) *amqp.Channel {
	v.Helper()
	conn, err := amqp.Dial(url)
	harness.Must(v, err)
	v.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	harness.Must(v, err)
	return ch
}

// consume has the victim get its events. The queue is there from its first event on.
func (v *victim) consume(url string) {
	v.Helper()
	harness.Must(v, v.publish(scheduleOf(victims, "first", time.Now())))
	conn, err := amqp.Dial(url)
	harness.Must(v, err)
	v.Cleanup(func() { conn.Close() })
	for {
		ch, err := conn.Channel()
		harness.Must(v, err)
		events, err := ch.Consume("svc."+victims+".q", "", true, false, false, false, nil)
		if err == nil {
			<-events
			go func() {
				for e := range events {
					v.got(e.Body)
				}
			}()
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-v.Context().Done():
			v.Fatal(err)
		}
	}
}

// dial connects as each user.
func (a *rabbitAttack) dial() (conns []*amqp.Connection) {
	for _, url := range a.urls {
		conn, err := amqp.Dial(url)
		if err != nil {
			a.Error(err)
			continue
		}
		conns = append(conns, conn)
	}
	return conns
}

// flood sends commands, valid and invalid, as fast as the server confirms them.
func (a *rabbitAttack) flood(ctx context.Context) {
	const unconfirmed = 1000
	for ctx.Err() == nil {
		conn, err := amqp.Dial(a.urls[0])
		if err != nil {
			continue
		}
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		var sent []*amqp.DeferredConfirmation
		tick := time.NewTicker(flooded * time.Second / floodRate)
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			if i%flooded == 0 {
				<-tick.C
			}
			body := scheduleOf(attacker, uuid.NewString(), time.Now().Add(time.Hour))
			if i%10 == 0 {
				body = forgeries()[i/10%4]
			}
			var confirm *amqp.DeferredConfirmation
			if confirm, err = ch.PublishWithDeferredConfirm("svc.direct.commands", "svc."+attacker+".timer", false, false, amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent}); err == nil {
				sent = append(sent, confirm)
			}
			if len(sent) == unconfirmed {
				sent[0].Wait()
				sent = sent[1:]
				a.confirmed.Add(1)
			}
		}
		tick.Stop()
		_ = conn.Close()
	}
}

// floodRate is how many commands a second the attacker sends, in steps of flooded: twice what its
// quota accepts. RabbitMQ limits no user, and all commands share one queue, so a flood
// that is more than the machine carries delays the commands of others.
const (
	floodRate = 1000
	flooded   = 50
)

// useMuch opens connections and channels, and takes its own events without ever acking them.
func (a *rabbitAttack) useMuch(ctx context.Context) {
	for ctx.Err() == nil {
		var conns []*amqp.Connection
		for range 20 {
			conns = append(conns, a.dial()...)
		}
		for _, conn := range conns {
			for range 20 {
				if ch, err := conn.Channel(); err == nil {
					_, _ = ch.Consume("svc.acme.q", "", false, false, false, false, nil)
				}
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
