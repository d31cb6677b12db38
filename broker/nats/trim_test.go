package nats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/timer"
)

// A filler publishes commands, each with the event that follows from it, and now and then
// a dead letter, and counts the messages that the stream took.
type filler struct {
	publisher message.Publisher
	sent      int // how often all were taken
}

// publish returns the error of the first message that is not taken.
func (f *filler) publish() error {
	for _, subject := range []string{commands, "svc.acme.serviceCall", "svc.other.serviceCall", "svc.acme.dlq"} {
		size := 10_000
		if strings.HasSuffix(subject, "dlq") {
			size = 10
		}
		id := fmt.Sprintf("%s-%d", subject, f.sent+1)
		if err := f.publisher.Publish(subject, message.NewMessage(id, bytes.Repeat([]byte("x"), size))); err != nil {
			return err
		}
	}
	f.sent++
	return nil
}

// kept returns which messages on a subject the stream still has.
func kept(t *testing.T, stream jetstream.Stream, subject string) map[int]bool {
	t.Helper()
	found := make(map[int]bool)
	for sequence := uint64(1); ; {
		m, err := stream.GetMsg(t.Context(), sequence, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found
		}
		must(t, err)
		id := m.Header.Get("Nats-Msg-Id")
		var n int
		if _, err := fmt.Sscanf(id[strings.LastIndex(id, "-")+1:], "%d", &n); err != nil {
			t.Fatal(err)
		}
		found[n], sequence = true, m.Sequence+1
	}
}

// acking acks all messages, until the test ends.
func acking(messages <-chan *message.Message) {
	for m := range messages {
		m.Ack()
	}
}

// reader makes a durable consumer of events, and returns it.
func reader(t *testing.T, js jetstream.JetStream, name, filter string) jetstream.Consumer {
	t.Helper()
	return makeConsumer(t, js, jetstream.ConsumerConfig{Durable: name, FilterSubject: filter})
}

// ack has a consumer ack all that it is delivered, until the test ends.
func ack(t *testing.T, c jetstream.Consumer) {
	t.Helper()
	consuming, err := c.Consume(func(m jetstream.Msg) { _ = m.Ack() })
	must(t, err)
	t.Cleanup(consuming.Stop)
}

// keeping has the numbers be written of all that is settled, until the test ends.
func keeping(t *testing.T, b *nats.Broker) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(func() {
		end()
		working.Wait()
	})
	working.Go(func() {
		for ctx.Err() == nil {
			logs, _ := b.Logs(ctx, "timer-service") // it fails at the end
			var numbers []timer.Number
			for _, l := range logs {
				numbers = append(numbers, timer.Number{Log: l.Name, Number: l.Floor})
			}
			b.Keep(numbers)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// TestConsumedMessagesDoNotFillTheStream publishes five times as much as the stream takes.
// Dead letters stay, and so does the event of a command that is still there.
func TestConsumedMessagesDoNotFillTheStream(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	_, js := client(t, e)
	b := ready(t, nats.Options{Server: e, MaxBytes: 1 << 20})
	keeping(t, b)
	go acking(subscribe(t, b, "timer-service", commands))
	ack(t, reader(t, js, "reader", "svc.*.serviceCall"))
	stream := streamOf(t, js)
	f := &filler{publisher: broker.NewWatermillPublisher(b.Publisher())}
	for f.sent < 5<<20/30_000 {
		if err := f.publish(); err != nil {
			until(t, "room in the stream", func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.Bytes < 1<<20/4*3
			})
		}
	}
	events, others := kept(t, stream, "svc.acme.serviceCall"), kept(t, stream, "svc.other.serviceCall")
	left := kept(t, stream, commands) // last: more may be removed meanwhile, commands first
	for n := range left {
		if !events[n] || !others[n] {
			t.Errorf("command %d is there, and its event is not", n)
		}
	}
	if letters := kept(t, stream, "svc.acme.dlq"); len(letters) < f.sent {
		t.Errorf("%d of %d dead letters are left", len(letters), f.sent)
	}
	history, _ := b.History()
	logs, err := history.Logs(t.Context(), "timer-service")
	first, _ := stream.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject(commands))
	if err != nil || len(logs) == 0 || first == nil || !logs[0].Oldest.Equal(first.Time) {
		t.Errorf("the stream has all commands since %v, %v, %+v", logs, err, first)
	}
}

// TestWhatIsNotConsumedStays has one thing each stand in the way, which the log names.
func TestWhatIsNotConsumedStays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		waits   string          // id of a command that is not acked
		readers map[string]bool // by subject: whether the consumer acks
		said    string
	}{
		{"numbers that are not written", "", map[string]bool{"svc.*.serviceCall": true}, `because="the database does not know yet that it has all messages"`},
		{"a command that waits", commands + "-1", map[string]bool{"svc.*.serviceCall": true}, `because="consumer timer-service_timer-commands has not acked all messages"`},
		{"a consumer that does not ack", "", map[string]bool{"svc.*.serviceCall": true, "svc.other.>": false}, `because="consumer reads-svc-other-- has not acked all messages"`},
		{"events that no consumer reads", "", map[string]bool{"svc.acme.serviceCall": true}, `because="no consumer reads svc.other.serviceCall,`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := syncing(t)
			_, js := client(t, e)
			b, lines := logging(t, nats.Options{Server: e, MaxBytes: 1 << 20})
			if tt.name != "numbers that are not written" {
				keeping(t, b)
			}
			go func(messages <-chan *message.Message) {
				for m := range messages {
					if m.UUID != tt.waits {
						m.Ack()
					}
				}
			}(subscribe(t, b, "timer-service", commands))
			for filter, acks := range tt.readers {
				c := reader(t, js, "reads-"+strings.NewReplacer(".", "-", "*", "-", ">", "-").Replace(filter), filter)
				if acks {
					ack(t, c)
				}
			}
			f := &filler{publisher: broker.NewWatermillPublisher(b.Publisher())}
			for f.publish() == nil {
			}
			until(t, "a line that names what stands in the way", func() bool { return strings.Contains(lines.String(), tt.said) })
			stream := streamOf(t, js)
			// The command that the first event followed from is consumed in the last case.
			if n := len(kept(t, stream, commands)); n < f.sent-1 {
				t.Errorf("%d of %d commands are left", n, f.sent)
			}
			if n := len(kept(t, stream, "svc.other.serviceCall")); n < f.sent {
				t.Errorf("%d of %d events are left", n, f.sent)
			}
		})
	}
}

// TestOtherStreamsAreNotTrimmed fills a stream that the service has not made.
func TestOtherStreamsAreNotTrimmed(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	_, js := client(t, e)
	stream := makeStream(t, js, jetstream.StreamConfig{
		Name: "svc", Subjects: []string{commands, "svc.>"}, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
	})
	b := ready(t, nats.Options{Server: e, MaxBytes: 1 << 20})
	go acking(subscribe(t, b, "timer-service", commands))
	ack(t, reader(t, js, "reader", "svc.*.serviceCall"))
	f := &filler{publisher: broker.NewWatermillPublisher(b.Publisher())}
	for f.publish() == nil {
	}
	awaitNotReady(t, b)
	if n := len(kept(t, stream, commands)); n < f.sent {
		t.Errorf("%d of %d commands are left", n, f.sent)
	}
}

// TestFullStreamIsReadAndHasRoomThen starts on a stream that is full of commands. Those
// that are handled make room.
func TestFullStreamIsReadAndHasRoomThen(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	first := ready(t, nats.Options{Server: e, MaxBytes: 1 << 20})
	publisher := broker.NewWatermillPublisher(first.Publisher())
	sent := 0
	for publisher.Publish(commands, message.NewMessage(fmt.Sprint(sent), make([]byte, 10_000))) == nil {
		sent++
	}
	b := run(t, nats.Options{Server: e, MaxBytes: 1 << 20})
	keeping(t, b)
	in := subscribe(t, b, "timer-service", commands)
	for range sent {
		(<-in).Ack()
	}
	awaitReady(t, b)
	if err := publisher.Publish(commands, message.NewMessage("after", make([]byte, 10_000))); err != nil {
		t.Error(err)
	}
	(<-in).Ack()
}

// TestAnUncountedEventStays has the server count the pending messages of a consumer late, as a
// replica does that is behind: the list of consumers says that nothing is pending.
func TestAnUncountedEventStays(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	conn, js := connected(t, s)
	b, lines := logging(t, nats.Options{URL: s.ClientURL(), MaxBytes: 1 << 20})
	keeping(t, b)
	go acking(subscribe(t, b, role, commands))
	late := reader(t, js, "late", "svc.*.serviceCall")
	if _, err := conn.Subscribe("late", func(m *natsgo.Msg) {
		var all []*jetstream.ConsumerInfo
		if ours, err := js.Consumer(t.Context(), "svc", durable); err == nil && strings.Contains(string(m.Data), `"offset":0`) {
			info := *late.CachedInfo()
			info.NumPending = 0
			all = append(all, ours.CachedInfo(), &info)
		}
		answer, _ := json.Marshal(map[string]any{"consumers": all})
		_ = m.Respond(answer) // the test may have ended
	}); err != nil {
		t.Fatal(err)
	}
	must(t, conn.Flush())
	must(t, s.GlobalAccount().AddMapping("$JS.API.CONSUMER.LIST.svc", "late"))
	f := &filler{publisher: broker.NewWatermillPublisher(b.Publisher())}
	for f.publish() == nil {
	}
	until(t, "a line about the full stream", func() bool {
		return strings.Contains(lines.String(), "removed consumed messages") || strings.Contains(lines.String(), "consumer late has not acked all messages")
	})
	if n := len(kept(t, streamOf(t, js), "svc.acme.serviceCall")); n < f.sent {
		t.Errorf("%d of %d events that nobody has read are left", n, f.sent)
	}
}
