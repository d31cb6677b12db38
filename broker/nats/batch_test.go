package nats_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// TestBatchesWhereOneByOneIsSlow publishes through a connection that is slow, and
// through one that is not, and looks for the mark that a batch leaves. Client or
// not, the first messages go out one by one, to see how long that takes.
func TestBatchesWhereOneByOneIsSlow(t *testing.T) {
	for _, slow := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			t.Run(fmt.Sprintf("slow %t, client %t", slow, client), func(t *testing.T) {
				bubble(t, func(t *testing.T) { publishesInBatches(t, slow, client) })
			})
		}
	}
}

func publishesInBatches(t *testing.T, slow, asClient bool) {
	e := serve(t)
	ready(t, nats.Options{Server: e}) // makes the stream
	way := between(t, e)
	b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(way)}, Client: asClient})
	if slow {
		way.Delay(proxy.ToClient, 500*time.Millisecond)
	}
	const n = 400
	messages := make([]*message.Message, n)
	for i := range messages {
		messages[i] = message.NewMessage(fmt.Sprint(i), nil)
	}
	if err := b.Publisher().Publish(topic, messages...); err != nil {
		t.Fatal(err)
	}
	_, js := client(t, e)
	stream, err := js.Stream(t.Context(), "svc")
	if err != nil {
		t.Fatal(err)
	}
	for sequence, want := range map[uint64]bool{1: false, n: slow} {
		m, err := stream.GetMsg(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("Nats-Batch-Id") != ""; got != want {
			t.Errorf("message %d is of a batch: %t, want %t", sequence, got, want)
		}
		if got, want := m.Header.Get("Nats-Msg-Id"), fmt.Sprint(sequence-1); got != want {
			t.Errorf("message %d has the id %s, want %s", sequence, got, want)
		}
	}
	synctest.Wait()
	time.Sleep(time.Second) // the server's flusher, which no shutdown waits for, ends
}
