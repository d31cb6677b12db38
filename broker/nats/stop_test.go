package nats_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// TestStopLeavesNothingBehind stops again and again while messages come in. What
// the server has sent, and was neither acked nor returned, would come again only
// after the ack wait.
func TestStopLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	must(t, err)
	t.Cleanup(e.Shutdown)
	conn, js := client(t, e)
	b := ready(t, nats.Options{URL: e.URL()}) // makes the stream

	ctx, cancel := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_ = conn.Publish(topic, []byte("x")) // the test ends it
			<-tick.C
		}
	})
	for round := range rounds {
		stopAfter(t, e.URL(), 20+round)
	}
	cancel()
	producing.Wait()

	rest := subscribe(t, b, "reader", topic)
	go func() {
		for msg := range rest {
			msg.Ack()
		}
	}()
	limit := time.After(15 * time.Second) // well below the ack wait
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := unacked(t, js)
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d messages are left, and come again after the ack wait", left)
		}
	}
}

// stopAfter runs a broker, acks a number of messages and all that follow, and stops
// as the service does.
func stopAfter(t *testing.T, url string, messages int) {
	t.Helper()
	b := nats.New(nats.Options{URL: url}, quiet)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	s := b.Subscriber("reader")
	in, err := s.Subscribe(ctx, topic)
	must(t, err)
	var closing sync.WaitGroup
	acked := 0
	for msg := range in {
		msg.Ack()
		if acked++; acked == messages {
			closing.Go(func() { _ = s.Close() })
		}
	}
	closing.Wait()
	cancel()
	must(t, <-ended)
}

// unacked returns how many messages the only consumer has not got an ack for.
func unacked(t *testing.T, js jetstream.JetStream) (n int) {
	t.Helper()
	consumers := streamOf(t, js).ListConsumers(t.Context())
	for c := range consumers.Info() {
		n += c.NumAckPending + int(c.NumPending)
	}
	must(t, consumers.Err())
	return n
}
