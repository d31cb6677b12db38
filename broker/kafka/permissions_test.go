package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// allow returns permissions as docs/brokers/kafka.md lists them.
func allow(resource kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, operations ...kmsg.ACLOperation) (acls []kfake.ACL) {
	for _, operation := range operations {
		acls = append(acls, kfake.ACL{Resource: resource, Name: name, Pattern: pattern, Operation: operation, Allow: true})
	}
	return acls
}

// TestPermissionsOfTheDocumentsSuffice runs a service, a client and an operator
// with what docs/brokers/kafka.md says that they need, and nothing else.
func TestPermissionsOfTheDocumentsSuffice(t *testing.T) {
	t.Parallel()
	const (
		literal, prefixed = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
		topic, group      = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
		read, write       = kmsg.ACLOperationRead, kmsg.ACLOperationWrite
		describe, configs = kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs
		create            = kmsg.ACLOperationCreate
	)
	plus := func(lists ...[]kfake.ACL) (all []kfake.ACL) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	c := serve(t, kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "service", password, plus(
			allow(topic, "timer.commands", literal, read, write, describe, configs, create),
			allow(topic, "service.events", literal, read, write, describe, configs, create),
			allow(topic, "service.events.", prefixed, read, write, describe, configs, create),
			allow(topic, kafka.DefaultReceipts, literal, write, describe, configs, create),
			allow(group, "timer-service.timer.commands", literal, read),
			allow(group, "timer-service.timer.commands.owner", literal, read))...),
		kfake.User("PLAIN", "producer", password, plus(
			allow(topic, "timer.commands", literal, write, describe),
			allow(topic, "service.events", literal, read, describe),
			allow(topic, kafka.DefaultReceipts, literal, read, describe),
			allow(topic, "service.events.acme.dlq", literal, read, describe))...),
		kfake.User("PLAIN", "operator", password, allow(topic, "service.events.", prefixed, read, describe, write)...),
		kfake.User("PLAIN", "stranger", password),
	)
	as := func(name string, client bool) kafka.Options {
		r := kafka.DefaultRouting()
		r.Receipts = kafka.DefaultReceipts
		return kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: name, Password: password, Client: client, Routing: r}
	}
	service, stop := start(t, as("service", false))
	mine := broker.Owner{Database: "mine", Broker: "here", Name: "sqlite mine.db"}
	if got, err := service.Claim(t.Context(), "timer-service", mine, false); err != nil || got != mine {
		t.Errorf("the owner is %v, %v", got, err)
	}
	s := service.Subscriber("timer-service")
	commands, err := s.Subscribe(t.Context(), "timer.commands")
	if err != nil {
		t.Fatal(err)
	}
	producer := ready(t, as("producer", true))
	events, err := producer.Tail().Subscribe(t.Context(), "service.events")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, producer, "timer.commands", "command")
	delayed(t, commands, time.Hour)
	publish(t, service, "service.events", "event")
	expect(t, events, "event")
	receipts, err := producer.Tail().Subscribe(t.Context(), kafka.DefaultReceipts)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, service, kafka.DefaultReceipts, "receipt")
	expect(t, receipts, "receipt")
	publish(t, service, deadLetters, "dead letter")
	if got := replay(t, service, broker.Events); len(merged(got, "service.events")) != 1 {
		t.Errorf("replay of events: %v", got)
	}
	if got := replay(t, service, broker.DeadLetter); len(got) != 1 {
		t.Errorf("replay of dead letters: %v", got)
	}
	if err := broker.Replay(t.Context(), service, "timer-service", broker.Commands, nil, func([]broker.Stored) error { return nil }); err != nil {
		t.Errorf("replay of commands: %v", err)
	}
	if logs, err := service.Logs(t.Context(), "timer-service"); err != nil || len(logs) != 12 {
		t.Errorf("the logs are %v, %v", logs, err)
	}
	if used, err := service.Used(t.Context(), "timer-service"); err != nil || used {
		t.Errorf("it is used: %v, %v", used, err)
	}
	operator := ready(t, as("operator", true))
	for want := range 2 {
		seen := 0
		if err := operator.VisitDeadLetters(t.Context(), "acme", func(*message.Message) (bool, error) {
			seen++
			return true, nil
		}); err != nil || seen != 1-want {
			t.Errorf("visit %d: %d dead letters, %v", want, seen, err)
		}
	}
	for _, attempt := range []struct{ user, topic string }{{"producer", "service.events"}, {"producer", deadLetters}, {"operator", "timer.commands"}} {
		b := ready(t, as(attempt.user, true))
		if err := broker.NewWatermillPublisher(b.Publisher()).Publish(attempt.topic, message.NewMessage("1", []byte("forged"))); err == nil {
			t.Errorf("%s may publish to %s", attempt.user, attempt.topic)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if stop(); stored(c, "timer.commands") != 2 {
		t.Error("the command that waits for its retry was not published again at the stop")
	}
	denied, _ := run(t, as("stranger", false))
	until(t, "a reason", func() bool { return denied.Ready(t.Context()) != nil })
}

// TestDeadLettersThatMayNotBeReadAreAnError visits dead letters as a user who may
// see that their topic is there, and no more.
func TestDeadLettersThatMayNotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	const topic, prefixed = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypePrefixed
	c := serve(t, kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "service", password, allow(topic, "", prefixed, kmsg.ACLOperationAll)...),
		kfake.User("PLAIN", "onlooker", password, allow(topic, "service.events.", prefixed, kmsg.ACLOperationDescribe)...),
	)
	as := func(name string) kafka.Options {
		return kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: name, Password: password, Client: name != "service"}
	}
	publish(t, ready(t, as("service")), deadLetters, "dead letter")
	err := ready(t, as("onlooker")).VisitDeadLetters(t.Context(), "acme", func(*message.Message) (bool, error) {
		t.Error("a dead letter was visited")
		return false, nil
	})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("visited with %v, want that it is not allowed", err)
	}
}

// TestTailThatMayNotReadSaysSo tails a topic as a user who may see that it is
// there, and no more.
func TestTailThatMayNotReadSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const topic, prefixed = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypePrefixed
		c, dialer := virtual(t, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.User("PLAIN", "onlooker", password, allow(topic, "service.events", prefixed, kmsg.ACLOperationDescribe)...))
		one(t, c, "service.events")
		log := new(logbuf.Buffer)
		b := kafka.New(kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: "onlooker", Password: password, Client: true, Connect: []kgo.Opt{dialer}},
			slog.New(slog.NewTextHandler(log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		until(t, "a broker that is ready", func() bool { return b.Ready(ctx) == nil })
		if _, err := b.Tail().Subscribe(ctx, "service.events"); err != nil {
			t.Fatal(err)
		}
		until(t, "a reason in the log", func() bool { return strings.Contains(log.String(), "TOPIC_AUTHORIZATION_FAILED") })
		if n := strings.Count(log.String(), "TOPIC_AUTHORIZATION_FAILED"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}
