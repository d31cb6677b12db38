package nats_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// replayed returns how many messages a replay visits.
func replayed(t testing.TB, b *nats.Broker, kind broker.Kind, after ...map[string]int64) (n int) {
	t.Helper()
	behind := make(map[string]int64)
	for _, a := range after {
		maps.Copy(behind, a)
	}
	err := brokertest.Read(t.Context(), b, role, kind, behind, func(batch []broker.Stored) error {
		n += len(batch)
		return nil
	})
	must(t, err)
	return n
}

// floorOf returns the log of the commands.
func floorOf(t testing.TB, b *nats.Broker) broker.Log {
	t.Helper()
	logs, err := b.Logs(t.Context(), role)
	if err != nil || len(logs) != 3 || logs[0].Kind != broker.Commands {
		t.Fatalf("logs %v, %v", logs, err)
	}
	return logs[0]
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
	if n := replayed(t, b, broker.Commands); n > 0 || used(t, b) {
		t.Errorf("%d commands, used %v", n, used(t, b))
	}
}

// Numbers of messages mean nothing in another stream, and what the old one held is lost. The
// next broker begins with the new one.
func TestStreamThatIsMadeAgainEndsTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := nats.New(nats.Options{Server: e}, quiet)
		ended := running(t.Context(), b)
		brokertest.AwaitReady(t, b)
		in := subscribe(t, b, role, commands)
		_, js := client(t, e)
		for range 5 {
			send(t, b, commands, "before")
			expect(t, in, "before")
		}
		until(t, "a floor", func() bool { return floorOf(t, b).Floor == 5 })
		before := floorOf(t, b)
		stream := streamOf(t, js)
		if want := "svc@" + stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano); before.Name != want { // databases keep it
			t.Errorf("the log is called %s, want %s", before.Name, want)
		}
		must(t, js.DeleteStream(t.Context(), "svc"))
		fails(t, <-ended, "made again")
		again := ready(t, nats.Options{Server: e})
		in = subscribe(t, again, role, commands)
		send(t, again, commands, "after")
		expect(t, in, "after")
		until(t, "the floor of the new one", func() bool {
			l := floorOf(t, again)
			return l.Name != before.Name && l.Floor == 1 && l.Last == 1
		})
		if n := replayed(t, again, broker.Commands, map[string]int64{before.Name: before.Floor}); n != 1 {
			t.Errorf("%d commands behind a position of the old stream", n)
		}
	})
}

// TestReplayNoticesAStreamThatIsMadeAgain has another process make it again.
func TestReplayNoticesAStreamThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	e := serve(t)
	provision(t, e)
	b := ready(t, nats.Options{Server: e, Client: true})
	_, js := client(t, e)
	for range 6 {
		must(t, try(b, topic, events(1000)...))
	}
	err := brokertest.Read(t.Context(), b, role, broker.Events, nil, func([]broker.Stored) error {
		err := js.DeleteStream(t.Context(), "svc")
		provision(t, e)
		return err
	})
	fails(t, err, "made again")
}

// used reports whether another process takes the commands.
func used(t testing.TB, b *nats.Broker) bool {
	t.Helper()
	used, err := b.Used(t.Context(), role)
	must(t, err)
	return used
}

// A process that was killed, or is cut off, counts until its requests expire.
func TestUsedForgetsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		conn, js := client(t, e)
		makeConsumer(t, js, jetstream.ConsumerConfig{Durable: durable, FilterSubject: commands})
		for _, killed := range []bool{false, true} {
			if _, err := conn.SubscribeSync("inbox"); err != nil {
				t.Fatal(err)
			}
			request := []byte(`{"batch": 2048, "expires": 5000000000, "idle_heartbeat": 2000000000}`)
			must(t, conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.svc."+durable, "inbox", request))
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

// All of these messages together are larger than one request may be.
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
	err := brokertest.Read(t.Context(), b, role, broker.Events, nil, func(batch []broker.Stored) error {
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

// TestInspectionSaysSinceWhenAllCommandsAreThere. Dead letters stay for longer, and tell
// nothing about commands.
func TestInspectionSaysSinceWhenAllCommandsAreThere(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	_, js := client(t, e)
	b := ready(t, nats.Options{Server: e})
	stream := streamOf(t, js)
	oldest := func() time.Time {
		found, err := b.Inspect(t.Context(), "timer-service")
		must(t, err)
		return found.Oldest
	}
	if got := oldest(); !got.Equal(stream.CachedInfo().Created) {
		t.Errorf("one that was never used has all since %v, and was created at %v", got, stream.CachedInfo().Created)
	}
	publisher := broker.NewWatermillPublisher(b.Publisher())
	for _, subject := range []string{"svc.acme.dlq", commands, commands} {
		must(t, publisher.Publish(subject, message.NewMessage("", nil)))
	}
	first, err := stream.GetMsg(t.Context(), 2)
	must(t, err)
	if got := oldest(); !got.Equal(first.Time) {
		t.Errorf("it has all since %v, and its first command is of %v", got, first.Time)
	}
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(commands)))
	if got := oldest(); !got.After(first.Time) {
		t.Errorf("without a command it has all since %v", got)
	}
}
