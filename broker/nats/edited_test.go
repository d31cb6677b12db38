package nats_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats"
)

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
		until(t, "word of the limit", func() bool {
			err := b.Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), "max_deliver is 3")
		})
		edit(t, js, func(c *jetstream.ConsumerConfig) { c.MaxDeliver = -1 })
		until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
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
		until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	})
}
