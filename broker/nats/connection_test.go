package nats_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// between puts a proxy before a server until the test ends.
func between(t *testing.T, s natsgo.InProcessConnProvider) *proxy.Proxy {
	t.Helper()
	p := proxy.New(s.InProcessConn)
	t.Cleanup(func() { p.Close() })
	return p
}

// cut has nothing arrive any more, and refuses new connections: a client that waits for
// an answer while it connects holds its lock (nats.go v1.55.0), and time stands still in a
// bubble where another one waits for that.
func cut(p *proxy.Proxy) {
	p.Drop(proxy.ToServer, proxy.ToClient)
	p.Refuse()
}

func TestHalfOpenConnectionIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := between(t, syncing(t))
		b := ready(t, nats.Options{AtomicBatches: true, Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		messages := subscribe(t, b, "reader", topic)
		publish(t, b, "before")
		expect(t, messages, "before")

		cut(p)
		began := time.Now()
		if b.Ready(t.Context()) == nil || time.Since(began) > time.Second {
			t.Errorf("ready, or silent for %v", time.Since(began))
		}
		for _, n := range []int{99, 1500} { // one by one, and in batches
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			asked := time.Now()
			for i, err := range b.Publisher().Publish(ctx, slices.Repeat([]broker.Message{event("acme", nil)}, n)...) {
				if errors.Is(err, broker.ErrRefused) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("message %d of %d: %v", i, n, err)
				}
			}
			cancel()
			if took := time.Since(asked); took > 2*time.Second {
				t.Errorf("%d messages took %v, longer than their context", n, took)
			}
		}
		err := try(b, topic, events(3000)...) // each batch waits for its ack
		if took := time.Since(began); err == nil || took > 30*time.Second {
			t.Errorf("publish: %v after %v", err, took)
		}
		p.Pass()
		awaitReady(t, b)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the connection was found dead after %v", took)
		}
		publish(t, b, "after")
		expectAll(t, messages, "after") // the last ack before may be lost
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("messages came again after %v", took)
		}
	})
}

func TestURLThatIsNoneIsAnErrorWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nats://timer:hunter2%zz@h", "nats://timer:hunter2@h:port", "nats://timer:hunter2@[::1"} {
		err := nats.New(nats.Options{URL: url}, quiet).Run(t.Context())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestCatchUpWaitsForWhatWasLostWithTheConnection has messages lost on their way
// when the connection is cut. They come again after the ack wait.
func TestCatchUpWaitsForWhatWasLostWithTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := serve(t)
		p := between(t, e)
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		producer := ready(t, nats.Options{Server: e})
		commands := b.Routing().Subscription()
		messages := subscribe(t, b, "reader", commands)
		send := func() {
			m := broker.Message{Topic: commands, Message: message.NewMessage(uuid.NewString(), nil)}
			must(t, broker.Join(producer.Publisher().Publish(t.Context(), m)))
		}
		var acked atomic.Int64
		go func() {
			for msg := range messages {
				acked.Add(1)
				msg.Ack()
			}
		}()
		must(t, b.CatchUp(t.Context(), "reader"))
		for round, lost := range []int64{0, 10, 0} {
			time.Sleep(time.Minute)
			before := acked.Load()
			p.Drop(proxy.ToClient)
			for range lost {
				send()
			}
			synctest.Wait()
			p.Refuse()
			p.Reset()
			time.Sleep(100 * time.Millisecond)
			p.Pass()
			for _, away := b.Interruptions(); away != nil; _, away = b.Interruptions() {
				time.Sleep(time.Millisecond)
			}
			began := time.Now()
			send()
			if err := b.CatchUp(t.Context(), "reader"); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if got := acked.Load() - before; got < lost+1 {
				t.Errorf("round %d: %d of %d were acked when CatchUp returned", round, got, lost+1)
			}
			if took := time.Since(began); lost == 0 && took > time.Second {
				t.Errorf("round %d: took %v, though nothing was lost", round, took)
			}
		}
	})
}

// A server disables JetStream when it can't write to its disk, and goes on otherwise.
func TestServerWithoutItsJetStreamIsNoticedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := guarded(t, &server.Options{DontListen: true})
		p := between(t, s)
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		messages := subscribe(t, b, role, commands)
		send(t, b, commands, "one")
		expect(t, messages, "one")
		config := s.JetStreamConfig()
		config.StoreDir = strings.TrimSuffix(config.StoreDir, "/jetstream") // to which the server adds it again
		must(t, s.DisableJetStream())
		began := time.Now()
		awaitNotReady(t, b)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("not ready after %v, want at most two seconds", took)
		}
		// A request that comes while JetStream starts is a data race in the server.
		p.Delay(proxy.ToServer, time.Second)
		synctest.Wait()
		must(t, s.EnableJetStream(config))
		p.Delay(proxy.ToServer, 0)
		awaitReady(t, b)
		send(t, b, commands, "two")
		expect(t, messages, "two")
	})
}

// TestMessagesWaitForTheAcksOfOthers publishes more at once than may be unacked, to a server
// whose acks take long.
func TestMessagesWaitForTheAcksOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := between(t, syncing(t))
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		p.Delay(proxy.ToServer, time.Second)
		var calls sync.WaitGroup
		for range 12 {
			calls.Go(func() {
				all := make([]broker.Message, 1000)
				for i := range all {
					all[i] = broker.Message{Topic: topic, Message: message.NewMessage(uuid.NewString(), []byte("body"))}
				}
				if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	})
}
