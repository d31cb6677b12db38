package nats_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// fill publishes n messages to the topic.
func fill(t testing.TB, b *nats.Broker, n int) {
	t.Helper()
	all := make([]broker.Message, n)
	for i := range all {
		all[i] = broker.Message{Topic: topic, Message: message.NewMessage(fmt.Sprint(i), nil)}
	}
	must(t, broker.Join(b.Publisher().Publish(t.Context(), all...)))
}

// TestWhatAKilledProcessHadComesBackWithinFiveSeconds cuts the connection of an
// instance that works on messages, and has more of them than it works on.
func TestWhatAKilledProcessHadComesBackWithinFiveSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := serve(t)
		p := between(t, e)
		first := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		messages := subscribe(t, first, "reader", topic)
		fill(t, first, 200)
		for range 100 {
			<-messages
		}
		second := ready(t, nats.Options{Server: e})
		rest := subscribe(t, second, "reader", topic)
		<-time.After(time.Minute) // all stay with the first
		select {
		case msg := <-rest:
			t.Fatalf("%s came to the other instance", msg.UUID)
		default:
		}
		p.Refuse()
		p.Reset()
		killed := time.Now()
		for range 200 {
			(<-rest).Ack()
		}
		if took := time.Since(killed); took > 5*time.Second+10*time.Millisecond {
			t.Errorf("came back after %v", took)
		}
	})
}

// TestAFrozenInstanceReceivesForFiveSecondsAtMost drops the messages that the server sends to
// an instance, as if it did not run, and publishes meanwhile.
func TestAFrozenInstanceReceivesForFiveSecondsAtMost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := serve(t)
		p := between(t, e)
		frozen := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		subscribe(t, frozen, "reader", topic)
		b := ready(t, nats.Options{Server: e})
		<-time.After(time.Minute)
		cut(p)
		<-time.After(5 * time.Second)
		messages := subscribe(t, b, "reader", topic)
		for i := range 3 { // the client library finds the connection dead after ten seconds, and connects again with its lock held
			sent := time.Now()
			publish(t, b, fmt.Sprint(i))
			expect(t, messages, fmt.Sprint(i))
			if took := time.Since(sent); took > time.Millisecond*10 {
				t.Errorf("message %d came after %v", i, took)
			}
			<-time.After(time.Second)
		}
		p.Pass()
	})
}

// TestWhatVersion010DelayedComesByItself has 300 messages whose consumer naked them with a
// delay, as version 0.1.0 did. They come when that is over, and others come before.
func TestWhatVersion010DelayedComesByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		first, s := brokertest.Subscribe(t, b, "reader", topic)
		publish(t, b, "first")
		expect(t, first, "first") // the consumer is made
		must(t, s.Close())
		const n = 300
		fill(t, b, n)
		_, js := client(t, e)
		c, err := js.Consumer(t.Context(), "svc", nats.ConsumerName("reader", topic))
		must(t, err)
		batch, err := c.FetchNoWait(n)
		must(t, err)
		for msg := range batch.Messages() {
			must(t, msg.NakWithDelay(time.Minute))
		}
		delayed := time.Now()
		messages := subscribe(t, b, "reader", topic)
		publish(t, b, "other")
		expect(t, messages, "other")
		for range n {
			msg := <-messages
			if took := time.Since(delayed); took < 59*time.Second || took > 62*time.Second || broker.Deliveries(msg) != 2 {
				t.Fatalf("%s came after %v, delivery %d", msg.UUID, took, broker.Deliveries(msg))
			}
			msg.Ack()
		}
	})
}

// TestMessageThatIsLargerThanARequestStopsNoOther has a server take a message that is
// larger than the bytes asked for at once, since it took larger ones then.
func TestMessageThatIsLargerThanARequestStopsNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(maxPayload int32) *server.Server {
		t.Helper()
		return launch(t, &server.Options{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, MaxPayload: maxPayload,
		})
	}
	s := start(32 << 20)
	large := strings.Repeat("x", 12<<20)
	b := ready(t, nats.Options{URL: s.ClientURL(), Client: true})
	if _, err := nats.New(nats.Options{URL: s.ClientURL()}, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"before", large + "1", large + "2", "after"} {
		send(t, b, commands, body)
	}
	s.Shutdown()
	s.WaitForShutdown()

	messages := subscribe(t, ready(t, nats.Options{URL: start(1 << 20).ClientURL()}), role, commands)
	expectAll(t, messages, "before", large+"1", large+"2", "after")
}
