package rabbitmq_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/timer"
)

// remove has the cleanup of the test remove what Provision declared.
func (r *rabbit) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, queue := range []string{r.opt.Routing.Commands, r.opt.Routing.DeadLettersOf(timer.NoTenant)} {
		r.declared[queue] = true
	}
}

func objects(changes []broker.Change) (all []string) {
	for _, c := range changes {
		if c.Detail == "" {
			all = append(all, "without detail")
		}
		all = append(all, c.Object)
	}
	return all
}

func TestProvisionMakesWhatIsMissingAndTellsBefore(t *testing.T) {
	t.Parallel()
	r := open(t)
	opt := r.opt
	opt.Verify = true // as the service does, which an administrator provisions for
	service, _ := r.run(opt)
	b := r.broker(r.opt)
	commands, deadLetters := r.opt.Routing.Commands, r.opt.Routing.DeadLettersOf(timer.NoTenant)
	want := []string{"exchange " + r.opt.Exchange, "exchange " + r.opt.Exchange + ".commands", "queue " + commands, "queue " + deadLetters}
	for _, dry := range []bool{true, true, false} {
		changes, err := b.Provision(t.Context(), dry)
		must(t, err)
		if diff := cmp.Diff(want, objects(changes)); diff != "" {
			t.Errorf("dry %v (-want +got):\n%s", dry, diff)
		}
		if dry {
			awaitNotReady(t, service, r.opt.Exchange+" is missing")
		}
	}
	r.remove()
	for _, dry := range []bool{true, false} {
		if changes, err := b.Provision(t.Context(), dry); err != nil || len(changes) > 0 {
			t.Errorf("again, dry %v: %v, %v; want nothing", dry, changes, err)
		}
	}
	awaitReady(t, service)
	if _, err := r.raw.QueueDelete(deadLetters, false, false, false); err != nil {
		t.Fatal(err)
	}
	changes, err := b.Provision(t.Context(), false)
	if diff := cmp.Diff(want[3:], objects(changes)); diff != "" || err != nil {
		t.Errorf("when a queue is missing: %v (-want +got):\n%s", err, diff)
	}
}

func TestVerifiedBrokerMakesNoQueue(t *testing.T) {
	t.Parallel()
	r := open(t)
	if _, err := r.broker(r.opt).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	r.remove()
	opt := r.opt
	opt.Verify = true
	b := r.ready(opt)
	if err := publishes(b, r.topic(), "event"); err == nil || !strings.Contains(err.Error(), r.topic()) {
		t.Errorf("publish without a queue: %v, want an error that names it", err)
	}
	messages := subscribe(t, b, "timer-service", r.topic())
	awaitNotReady(t, b, "queue "+r.topic()+" is missing")
	r.queue(r.topic(), nil)
	publish(t, b, r.topic(), "event")
	expect(t, messages, "event")
}

func TestQueueThatDoesNotFitIsRefusedByTheNameOfItsArgument(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{
		"x-max-length":           {"x-max-length": 10},
		"x-message-ttl":          {"x-message-ttl": 60_000},
		"x-expires":              {"x-expires": 600_000},
		"x-dead-letter-exchange": {"x-dead-letter-exchange": "x"},
		"x-queue-type":           {"x-queue-type": "quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			must(t, r.raw.ExchangeDeclare(r.opt.Exchange, "direct", true, false, false, false, nil))
			if _, err := r.raw.QueueDeclare(r.opt.Routing.Commands, true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
			r.declared[r.opt.Routing.Commands] = true
			for _, verify := range []bool{false, true} {
				opt := r.opt
				opt.Verify = verify
				b := r.broker(opt)
				for what, err := range map[string]error{"Run": b.Run(t.Context()), "Provision": second(b.Provision(t.Context(), true))} {
					if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), r.opt.Routing.Commands) {
						t.Errorf("%s, verify %v: %v; want an error that names queue and argument", what, verify, err)
					}
				}
			}
		})
	}
}

func second(_ []broker.Change, err error) error { return err }

func TestExchangeOfAnotherTypeIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	must(t, r.raw.ExchangeDeclare(r.opt.Exchange, "fanout", true, false, false, false, nil))
	if err := r.broker(r.opt).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("Run: %v, want an error about the type", err)
	}
}

func TestOptionsThatCantWorkEndRun(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]rabbitmq.Options{
		"a URL of another kind":     {URL: "nats://u:hunter2@127.0.0.1"},
		"a URL that is none":        {URL: "amqp://u:hunter2%zz@127.0.0.1"},
		"a URL with parameters":     {URL: "amqp://u:hunter2@127.0.0.1/?heartbeat=1"},
		"a URL without a host":      {URL: "amqp:///vhost"},
		"a virtual host in two":     {URL: "amqp://u:hunter2@127.0.0.1/a/b"},
		"an exchange of the server": {Exchange: "amq.direct"},
		"another type of queue":     {QueueType: "stream"},
		"a topic with a wildcard":   {Routing: broker.Routing{Commands: "a.*", Events: "b", DeadLetters: "c"}},
		"commands of each tenant":   {Routing: broker.Routing{Commands: "svc.{tenant}.c", Events: "b", DeadLetters: "c"}},
		"a tenant in a word":        {Routing: broker.Routing{Commands: "svc.x{tenant}.c", Events: "b", DeadLetters: "c", Wildcard: "*"}},
	} {
		b := rabbitmq.New(opt, quiet)
		for what, err := range map[string]error{"Run": b.Run(t.Context()), "Provision": second(b.Provision(t.Context(), true))} {
			if err == nil || errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}
