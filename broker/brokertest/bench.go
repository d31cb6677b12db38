package brokertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// Bench measures the throughput of a driver with messages of 383 bytes, each of a key
// of its own.
func Bench(b *testing.B, f Features, open Open) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("publish/%d-at-once", size), func(b *testing.B) {
			n := newBenchNode(b, open)
			topic := n.Routing().EventsOf("bench")
			for b.Loop() {
				n.publish(b, topic, ballast(size)...)
			}
			rate(b, b.N*size)
		})
	}
	b.Run("consume", func(b *testing.B) {
		if !f.Durable {
			b.Skip("nothing is kept")
		}
		n := newBenchNode(b, open)
		for b.Loop() {
			b.StopTimer()
			topic := n.Routing().EventsOf(timer.TenantID(uuid.NewString()))
			n.know(b, "reader", topic)
			fill(b, n, topic)
			b.StartTimer()
			messages := n.subscribe(b, "reader", topic)
			for range filled {
				Next(b, messages).Ack()
			}
		}
		rate(b, b.N*filled)
	})
	b.Run("publish-to-delivery", func(b *testing.B) {
		n := newBenchNode(b, open)
		topic := n.Routing().EventsOf("bench")
		messages := n.subscribe(b, "reader", topic)
		for b.Loop() {
			n.publish(b, topic, ballast(1)...)
			Next(b, messages).Ack()
		}
	})
}

// filled is how many messages fill publishes.
const filled = 10_000

func fill(b *testing.B, n *node, topic string) {
	for all := ballast(filled); len(all) > 0; all = all[1000:] {
		if err := broker.NewWatermillPublisher(n.Publisher()).Publish(topic, all[:1000]...); err != nil {
			b.Error(err)
		}
	}
}

func newBenchNode(b *testing.B, open Open) *node {
	n := &node{Broker: open(b).Broker()}
	n.stop = Start(b, n)
	AwaitReady(b, n)
	return n
}

// ballast returns messages of the size of an event.
func ballast(n int) []*message.Message {
	all := many(n)
	for _, m := range all {
		m.Payload = []byte(strings.Repeat("x", 383))
	}
	return all
}

func rate(b *testing.B, messages int) {
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msgs/s")
}

var _ broker.Broker = (*node)(nil)
