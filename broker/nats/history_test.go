package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// replayed returns how many messages a replay visits.
func replayed(t testing.TB, b *nats.Broker, kind broker.Kind, from ...timer.Position) (n int) {
	t.Helper()
	err := broker.Replay(t.Context(), b, role, kind, from, func(batch []broker.Stored) error {
		n += len(batch)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLogIsNamedAfterTheStreamAndItsCreation(t *testing.T) {
	t.Parallel()
	e := serve(t)
	b := ready(t, nats.Options{Server: e})
	_, js := client(t, e)
	publish(t, b, "event")
	stream, err := js.Stream(t.Context(), "svc")
	if err != nil {
		t.Fatal(err)
	}
	want := "svc@" + stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	logs, err := b.Logs(t.Context(), role)
	if err != nil || len(logs) != 1 || logs[0].Name != want || logs[0].Last != 1 {
		t.Errorf("logs %+v, %v, want %s", logs, err, want)
	}
	if p := b.Positions(role); len(p) != 1 || p[0] != (timer.Position{Log: want, Observed: 1}) {
		t.Errorf("positions %+v", p)
	}
	if n := replayed(t, b, broker.Events); n != 1 {
		t.Errorf("%d events", n)
	}
	for c := range stream.ListConsumers(t.Context()).Info() {
		t.Errorf("consumer %s is left", c.Name)
	}
}

// Without a stream, which only an administrator makes, there is no log.
func TestHistoryWithoutAStream(t *testing.T) {
	t.Parallel()
	b := run(t, nats.Options{Server: serve(t), Verify: true})
	until(t, "a connection", func() bool {
		_, err := b.Logs(t.Context(), role)
		if err != nil && !errors.Is(err, broker.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	if logs, err := b.Logs(t.Context(), role); err != nil || len(logs) > 0 {
		t.Errorf("logs %v, %v", logs, err)
	}
	if n := replayed(t, b, broker.Commands); n > 0 || used(t, b) || len(b.Positions(role)) > 0 {
		t.Errorf("%d commands, used %v, positions %v", n, used(t, b), b.Positions(role))
	}
}

// A stream that is deleted under a running broker is another log, in which nothing was
// read.
func TestPositionsOfAStreamThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	e := serve(t)
	b := ready(t, nats.Options{Server: e})
	in := subscribe(t, b, role, commands)
	_, js := client(t, e)
	for range 5 {
		send(t, b, commands, "before")
		expect(t, in, "before")
	}
	until(t, "a position", func() bool { return b.Positions(role)[0].Committed == 5 })
	before := b.Positions(role)[0]
	if err := js.DeleteStream(t.Context(), "svc"); err != nil {
		t.Fatal(err)
	}
	until(t, "a stream that is made again", func() bool {
		return broker.NewWatermillPublisher(b.Publisher()).Publish(commands, message.NewMessage(uuid.NewString(), []byte("after"))) == nil
	})
	expect(t, in, "after")
	until(t, "positions of the new one", func() bool {
		p := b.Positions(role)
		return len(p) == 1 && p[0].Log != before.Log && p[0].Committed == 1 && p[0].Observed == 1
	})
	if n := replayed(t, b, broker.Commands, before); n != 1 {
		t.Errorf("%d commands behind a position of the old stream", n)
	}
}

func TestReplayNoticesAStreamThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	e := serve(t)
	b := ready(t, nats.Options{Server: e})
	_, js := client(t, e)
	for range 6 {
		if err := broker.NewWatermillPublisher(b.Publisher()).Publish(topic, events(1000)...); err != nil {
			t.Fatal(err)
		}
	}
	err := broker.Replay(t.Context(), b, role, broker.Events, nil, func([]broker.Stored) error {
		if err := js.DeleteStream(t.Context(), "svc"); err != nil {
			return err
		}
		until(t, "a broker that has noticed", func() bool { return b.Ready(t.Context()) != nil })
		until(t, "a stream that is made again", func() bool { return b.Ready(t.Context()) == nil })
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "made again") {
		t.Errorf("replay: %v", err)
	}
}

// An idle service asks the server for its consumer only to see whether someone has
// changed it; it asks more when something came or was settled.
func TestIdleServiceDoesNotAskForItsPosition(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		conn, _ := client(t, e)
		var asked atomic.Int64
		if _, err := conn.Subscribe("$JS.API.CONSUMER.INFO.svc.*", func(*natsgo.Msg) { asked.Add(1) }); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, role, commands)
		for range 3 {
			<-time.After(10 * time.Second)
			asked.Store(0)
			send(t, b, commands, "one")
			expect(t, in, "one")
			<-time.After(10 * time.Second)
			if n := asked.Load(); n <= 1 || n > 3+1 {
				t.Errorf("asked %d times after a message", n)
			}
			asked.Store(0)
			<-time.After(10 * time.Minute)
			if n := asked.Load(); n > 61 {
				t.Errorf("asked %d times in ten minutes without one", n)
			}
		}
		if p := b.Positions(role); len(p) != 1 || p[0].Committed != 3 || p[0].Observed != 3 {
			t.Errorf("positions %v", p)
		}
	})
}

// A replay is waited for by another, and what a process that was killed has left
// is gone after seconds.
func TestReplayWaitsForTheLeftoverOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		_, js := client(t, e)
		publish(t, b, "event")
		_, err := js.CreateConsumer(t.Context(), "svc", jetstream.ConsumerConfig{
			Name: durable + "_replay-events", Description: "killed", FilterSubject: "svc.*.serviceCall",
			AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 5 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if n := replayed(t, b, broker.Events); n != 1 {
			t.Errorf("%d events", n)
		}
		if waited := time.Since(began); waited < time.Second || waited > time.Minute {
			t.Errorf("waited %v", waited)
		}
	})
}

// used reports whether another process takes the commands.
func used(t testing.TB, b *nats.Broker) bool {
	t.Helper()
	used, err := b.Used(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// A process is never used by itself, whatever it has asked for and when.
func TestUsedDoesNotCountItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, nats.Options{Server: serve(t)})
		in := subscribe(t, b, role, commands)
		for i := range 60 {
			for range i % 7 {
				send(t, b, commands, "one")
				expect(t, in, "one")
			}
			<-time.After(time.Duration(i%11) * 97 * time.Millisecond)
			if used(t, b) {
				t.Fatalf("used by itself in round %d", i)
			}
		}
	})
}

// A process that was killed, or is cut off, counts until its requests expire.
func TestUsedForgetsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		conn, js := client(t, e)
		if _, err := js.CreateConsumer(t.Context(), "svc", jetstream.ConsumerConfig{Durable: durable, FilterSubject: commands, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
		for _, killed := range []bool{false, true} {
			if _, err := conn.SubscribeSync("inbox"); err != nil {
				t.Fatal(err)
			}
			request := []byte(`{"batch": 2048, "expires": 5000000000, "idle_heartbeat": 2000000000}`)
			if err := conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.svc."+durable, "inbox", request); err != nil {
				t.Fatal(err)
			}
			until(t, "one that is used", func() bool { return used(t, b) })
			if killed {
				conn.Close()
			}
			<-time.After(6 * time.Second)
			if used(t, b) {
				t.Errorf("used after 6 s; killed: %v", killed)
			}
		}
	})
}

// What is larger than a request may be comes too.
func TestReplayOfLargeMessages(t *testing.T) {
	t.Parallel()
	e := serve(t)
	b := ready(t, nats.Options{Server: e})
	const n = 40
	body := strings.Repeat("x", 900<<10)
	for range n {
		publish(t, b, body)
	}
	total, batches := 0, 0
	err := broker.Replay(t.Context(), b, role, broker.Events, nil, func(batch []broker.Stored) error {
		bytes := 0
		for _, m := range batch {
			bytes += len(m.Message.Payload)
		}
		if bytes > 9<<20 {
			t.Errorf("a batch of %d bytes", bytes)
		}
		total, batches = total+len(batch), batches+1
		return nil
	})
	if err != nil || total != n || batches < 4 {
		t.Errorf("%d messages in %d batches, %v", total, batches, err)
	}
}

// TestReplayAsksForWholeBatches has a reader that is slower than the server: what was
// asked for is never more than fits.
func TestReplayAsksForWholeBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a server that is silent for 5 s ends a batch
		b := ready(t, nats.Options{Server: serve(t)})
		for range 9 {
			if err := broker.NewWatermillPublisher(b.Publisher()).Publish(topic, events(1000)...); err != nil {
				t.Fatal(err)
			}
		}
		var sizes []int
		if err := broker.Replay(t.Context(), b, role, broker.Events, nil, func(batch []broker.Stored) error {
			sizes = append(sizes, len(batch))
			<-time.After(time.Second)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []int{2000, 2000, 2000, 2000, 1000}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %d messages, want %d", sizes, want)
		}
	})
}

// events returns messages of 383 bytes.
func events(n int) []*message.Message {
	all := make([]*message.Message, n)
	for i := range all {
		all[i] = message.NewMessage(uuid.NewString(), []byte(strings.Repeat("e", 383)))
		all[i].Metadata.Set("tenantid", "acme")
		all[i].Metadata.Set("correlationid", "correlation")
	}
	return all
}

// BenchmarkReplay replays events from a server that is a process of its own. As many
// dead letters are in the stream.
func BenchmarkReplay(b *testing.B) {
	const n = 40_000
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	s := openProcess(b, path)
	node := s.Broker()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	until(b, "a broker that is ready", func() bool { return node.Ready(b.Context()) == nil })
	for i := range n / 1000 {
		for _, to := range []string{topic, "svc.acme.dlq"} {
			if err := broker.NewWatermillPublisher(node.Publisher()).Publish(to, events(1000)...); err != nil {
				b.Fatal(i, err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		read := 0
		err := broker.Replay(b.Context(), node.(*nats.Broker), role, broker.Events, nil, func(batch []broker.Stored) error {
			read += len(batch)
			return nil
		})
		if err != nil || read != n {
			b.Fatal(fmt.Sprint(read), err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkPositions asks for positions, as each transaction does.
func BenchmarkPositions(b *testing.B) {
	node := ready(b, nats.Options{Server: serve(b)})
	publish(b, node, "event")
	b.ReportAllocs()
	for b.Loop() {
		if len(node.Positions(role)) != 1 {
			b.Fatal("no position")
		}
	}
}
