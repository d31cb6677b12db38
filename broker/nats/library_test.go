//go:build linux || darwin || freebsd

package nats_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// BenchmarkLibrary compares what the driver does itself with what the client
// library has for it: messages of 383 bytes, with the server in the process, with
// and without a sync of its disk for each ack. ADR 0006 names the results.
func BenchmarkLibrary(b *testing.B) {
	for _, syncs := range []bool{false, true} {
		b.Run(fmt.Sprintf("syncs=%t", syncs), func(b *testing.B) {
			for _, size := range []int{8, 32, 100, 1000} {
				b.Run(fmt.Sprint("publish-", size), func(b *testing.B) { publishLibrary(b, syncs, size) })
			}
			b.Run("consume", func(b *testing.B) { consumeLibrary(b, syncs) })
		})
	}
}

func publishLibrary(b *testing.B, syncs bool, size int) {
	body := make([]byte, 383)
	driver := func(b *testing.B, batches bool) {
		_, js, url := benchServer(b, syncs)
		config := jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardNew, MaxBytes: 8 << 30, AllowAtomicPublish: batches}
		if _, err := js.CreateStream(b.Context(), config); err != nil {
			b.Fatal(err)
		}
		p := ready(b, nats.Options{URL: url}).Publisher()
		began := cpu()
		for b.Loop() {
			all := make([]broker.Message, size)
			for i := range all {
				all[i] = broker.Message{Topic: topic, Message: message.NewMessage(uuid.NewString(), body)}
			}
			if err := broker.Join(p.Publish(context.Background(), all...)); err != nil {
				b.Fatal(err)
			}
		}
		perMessage(b, began, b.N*size)
	}
	b.Run("one-by-one", func(b *testing.B) { driver(b, false) })
	b.Run("batches", func(b *testing.B) { driver(b, true) })
	b.Run("PublishMsgAsync", func(b *testing.B) {
		_, js, _ := benchServer(b, syncs)
		if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>"}}); err != nil {
			b.Fatal(err)
		}
		began := cpu()
		for b.Loop() {
			futures := make([]jetstream.PubAckFuture, size)
			for i := range futures {
				m := &natsgo.Msg{Subject: topic, Data: body, Header: natsgo.Header{natsgo.MsgIdHdr: {uuid.NewString()}}}
				var err error
				if futures[i], err = js.PublishMsgAsync(m); err != nil {
					b.Fatal(err)
				}
			}
			for _, f := range futures {
				select {
				case <-f.Ok():
				case err := <-f.Err():
					b.Fatal(err)
				}
			}
		}
		perMessage(b, began, b.N*size)
	})
}

// consumeLibrary acks messages as they come: from our own pull requests, and from
// Consume of the client library behind the same window.
func consumeLibrary(b *testing.B, syncs bool) {
	n := 20_000
	if testing.Short() {
		n = 200
	}
	receive := func(b *testing.B, subscribe func(url string, js jetstream.JetStream) (messages <-chan *message.Message, stop func())) {
		_, js, url := benchServer(b, syncs)
		p := ready(b, nats.Options{URL: url}).Publisher()
		began, used := time.Duration(0), time.Duration(0)
		for b.Loop() {
			b.StopTimer()
			all := make([]broker.Message, n)
			for i := range all {
				all[i] = broker.Message{Topic: topic, Message: message.NewMessage(uuid.NewString(), make([]byte, 383))}
			}
			if err := broker.Join(p.Publish(context.Background(), all...)); err != nil {
				b.Fatal(err)
			}
			began = cpu()
			b.StartTimer()
			messages, stop := subscribe(url, js)
			for range n {
				(<-messages).Ack()
			}
			b.StopTimer()
			used += cpu() - began
			stop()
			b.StartTimer()
		}
		perMessage(b, cpu()-used, b.N*n)
	}
	b.Run("ours", func(b *testing.B) {
		var own *nats.Broker
		receive(b, func(url string, _ jetstream.JetStream) (<-chan *message.Message, func()) {
			if own == nil {
				b.StopTimer()
				own = ready(b, nats.Options{URL: url})
				b.StartTimer()
			}
			s := own.Subscriber("reader")
			messages, err := s.Subscribe(context.Background(), topic)
			if err != nil {
				b.Fatal(err)
			}
			return messages, func() { _ = s.Close() }
		})
	})
	b.Run("Consume", func(b *testing.B) {
		receive(b, func(_ string, js jetstream.JetStream) (<-chan *message.Message, func()) {
			c, err := js.CreateOrUpdateConsumer(context.Background(), "svc", jetstream.ConsumerConfig{
				Durable: "library", FilterSubject: topic, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
			})
			if err != nil {
				b.Fatal(err)
			}
			w := inflight.New(context.Background(), inflight.Options{})
			consuming, err := c.Consume(func(m jetstream.Msg) { w.Add(libraryDelivery{m}, 1) }, jetstream.PullMaxMessages(4096))
			if err != nil {
				b.Fatal(err)
			}
			return w.Messages(), func() {
				consuming.Stop()
				w.Close()
				w.Wait(nil)
			}
		})
	})
}

// A libraryDelivery is a message of the client library in a window.
type libraryDelivery struct{ jetstream.Msg }

func (d libraryDelivery) Bytes() int { return len(d.Data()) }

func (d libraryDelivery) Message() *message.Message {
	msg := message.NewMessage(d.Headers().Get(natsgo.MsgIdHdr), d.Data())
	msg.Metadata[broker.MetaTopic] = d.Subject()
	for name, values := range d.Headers() {
		msg.Metadata[name] = values[0]
	}
	if meta, err := d.Metadata(); err == nil {
		msg.Metadata[broker.MetaPosition] = strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	return msg
}

func (d libraryDelivery) Stale() bool                    { return false }
func (d libraryDelivery) Ack()                           { _ = d.Msg.Ack() }
func (d libraryDelivery) Retry(delay time.Duration) bool { return d.NakWithDelay(delay) == nil }
func (d libraryDelivery) Return()                        { _ = d.Nak() }

// TestLibraryTakesAMessageForAStatus shows why the driver pulls by itself: the
// client library does not deliver an empty message with a header "Status", which
// any producer can send, so that it is never acked and comes again for ever. With
// this one it ends the subscription, too.
func TestLibraryTakesAMessageForAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		ready(t, nats.Options{Server: e}) // makes the stream
		_, js := client(t, e)
		for _, m := range []*natsgo.Msg{
			{Subject: topic, Header: natsgo.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}},
			{Subject: topic, Data: []byte("good")},
		} {
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		c, err := js.CreateOrUpdateConsumer(t.Context(), "svc", jetstream.ConsumerConfig{Durable: "library", FilterSubject: topic, AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan jetstream.Msg, 100)
		consuming, err := c.Consume(func(m jetstream.Msg) { got <- m })
		if err != nil {
			t.Fatal(err)
		}
		defer consuming.Stop()
		time.Sleep(time.Minute) // twice the ack wait
		for len(got) > 0 {
			if m := <-got; len(m.Data()) == 0 {
				t.Error("the library delivers the empty message: decide ADR 0006 anew")
			}
		}
	})
}

// benchServer starts a server, and connects with it as the client library does.
func benchServer(b *testing.B, syncs bool) (*natsgo.Conn, jetstream.JetStream, string) {
	b.Helper()
	e, err := embedded.Start(embedded.Options{StoreDir: b.TempDir(), SyncLazily: !syncs}, quiet)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Shutdown)
	conn, err := natsgo.Connect(e.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(8192))
	if err != nil {
		b.Fatal(err)
	}
	return conn, js, e.URL()
}

// cpu returns the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perMessage reports the rate, and the processor time of client and server, which
// says more than the rate if others use the machine.
func perMessage(b *testing.B, began time.Duration, messages int) {
	b.Helper()
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(messages), "cpu-µs/msg")
}
