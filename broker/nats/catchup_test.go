package nats_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

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
