package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

func TestUnfitStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			says   string
			config jetstream.StreamConfig
		}{
			{"retention", jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Retention: jetstream.WorkQueuePolicy}},
			{"overlap", jetstream.StreamConfig{Name: "other", Subjects: []string{"svc.>"}}},
		} {
			e := serve(t)
			_, js := client(t, e)
			makeStream(t, js, tt.config)
			b := nats.New(nats.Options{Server: e}, quiet)
			fails(t, b.Run(t.Context()), tt.says)
			if b.Ready(t.Context()) == nil {
				t.Error("ready")
			}
		}
	})
}

func TestFitStreamOfOthersStaysAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		_, js := client(t, e)
		before := makeStream(t, js, jetstream.StreamConfig{
			Name: "ours", Subjects: []string{"svc.*.*", "timer.*"}, Discard: jetstream.DiscardNew, MaxBytes: 1 << 20,
			MaxAge: 48 * time.Hour, Duplicates: time.Hour,
		})
		b := ready(t, nats.Options{Server: e, Stream: "ours"})
		publish(t, b, "one")
		after := streamNamed(t, js, "ours")
		if was, is := fmt.Sprintf("%+v", before.CachedInfo().Config), fmt.Sprintf("%+v", after.CachedInfo().Config); was != is {
			t.Errorf("was %s\nis  %s", was, is)
		}
		if _, err := js.Stream(t.Context(), "svc"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("a second stream: %v", err)
		}
	})
}

func TestClientMakesNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e, Client: true})
		if err := try(b, topic, message.NewMessage("id", nil)); err == nil || errors.Is(err, broker.ErrRefused) {
			t.Errorf("publish without a stream: %v", err)
		}
		_, js := client(t, e)
		if _, err := js.Stream(t.Context(), "svc"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("the stream: %v", err)
		}
		ready(t, nats.Options{Server: e})
		publish(t, b, "now")
	})
}

func TestConsumerThatIsDeletedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		messages := subscribe(t, b, "reader", topic)
		publish(t, b, "one")
		expect(t, messages, "one")
		_, js := client(t, e)

		must(t, js.DeleteConsumer(t.Context(), "svc", "reader_svc-acme-serviceCall"))
		expect(t, messages, "one") // its position was deleted with it
		publish(t, b, "two")
		expect(t, messages, "two")
	})
}

func TestAckOfAMessageOfAnotherStreamMeansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		provision(t, e)
		b := ready(t, nats.Options{Server: e, Client: true})
		messages := subscribe(t, b, "reader", topic)
		publish(t, b, "old")
		old := <-messages
		_, js := client(t, e)
		must(t, js.DeleteStream(t.Context(), "svc"))
		provision(t, e)
		publish(t, b, "new")
		first := <-messages // number 1, as the old one was
		old.Ack()
		first.Nack()
		if again := <-messages; string(again.Payload) != "new" || again.Metadata.Get(broker.MetaDelivery) != "2" {
			t.Errorf("got %q, delivery %s", again.Payload, again.Metadata.Get(broker.MetaDelivery))
		} else {
			again.Ack()
		}
	})
}

// edit changes the consumer of commands, as an administrator does.
func edit(t *testing.T, js jetstream.JetStream, change func(*jetstream.ConsumerConfig)) {
	t.Helper()
	consumer, err := js.Consumer(t.Context(), "svc", durable)
	must(t, err)
	config := consumer.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateConsumer(t.Context(), "svc", config); err != nil {
		t.Fatal(err)
	}
}

// The server parks a message silently that was delivered as often as the limit says.
func TestConsumerThatIsEditedWhileItIsUsedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		_, js := client(t, e)
		messages := subscribe(t, b, role, commands)
		send(t, b, commands, "one")
		expect(t, messages, "one")
		edit(t, js, func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 })
		awaitNotReady(t, b, "max_deliver is 3")
		edit(t, js, func(c *jetstream.ConsumerConfig) { c.MaxDeliver = -1 })
		awaitReady(t, b)
		send(t, b, commands, "two")
		expect(t, messages, "two")
	})
}

// A consumer that is paused delivers nothing, and is fit otherwise.
func TestConsumerThatIsPausedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		_, js := client(t, e)
		messages := subscribe(t, b, role, commands)
		send(t, b, commands, "one")
		expect(t, messages, "one")
		if _, err := js.PauseConsumer(t.Context(), "svc", durable, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		send(t, b, commands, "two")
		reported := func() bool {
			err := b.Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), "paused")
		}
		until(t, "word of the pause", reported)
		<-time.After(time.Minute)
		if !reported() {
			t.Error("ready while it is paused")
		}
		if _, err := js.ResumeConsumer(t.Context(), "svc", durable); err != nil {
			t.Fatal(err)
		}
		expect(t, messages, "two")
		awaitReady(t, b)
	})
}

// TestSubscriptionThatHasEndedIsNotReported ends one whose consumer is paused, while a handler has
// its last message.
func TestSubscriptionThatHasEndedIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		_, js := client(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		messages, err := b.Subscriber(role).Subscribe(ctx, commands)
		if err != nil {
			t.Fatal(err)
		}
		send(t, b, commands, "last")
		last := <-messages
		if _, err := js.PauseConsumer(t.Context(), "svc", durable, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		until(t, "word of the pause", func() bool { return b.Ready(t.Context()) != nil })
		cancel()
		<-time.After(5 * time.Second)
		last.Ack()
		<-time.After(5 * time.Second)
		if err := b.Ready(t.Context()); err != nil {
			t.Errorf("not ready without a subscription: %v", err)
		}
	})
}
