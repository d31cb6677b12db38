package brokertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

func arrives(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	sent := keyed("call-1", "{\"a\":\"\u00e9\x00\xff\"}\r\n")
	sent.Metadata.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	sent.Metadata.Set("Mixed_Case-1", "a, b; c=\"d\" \u00e9")
	sent.Metadata.Set(broker.MetaTopic, "elsewhere")
	sent.Metadata.Set(broker.MetaPosition, "0")
	sent.Metadata.Set(broker.MetaDelivery, "77")
	second := keyed("call-1", "")
	w.publish(w, topic) // nothing
	w.publish(w, topic, sent, second)

	got := Next(w, messages)
	got.Ack()
	empty := Next(w, messages)
	empty.Ack()
	if got.UUID == second.UUID {
		got, empty = empty, got
	}
	if got.UUID != sent.UUID || string(got.Payload) != string(sent.Payload) {
		w.Errorf("got %s %q, want %s %q", got.UUID, got.Payload, sent.UUID, sent.Payload)
	}
	position := got.Metadata.Get(broker.MetaPosition)
	want := message.Metadata{
		envelope.HeaderTenantID: "acme", envelope.HeaderServiceCallID: "call-1",
		"traceparent": sent.Metadata.Get("traceparent"), "Mixed_Case-1": sent.Metadata.Get("Mixed_Case-1"),
		broker.MetaTopic: topic, broker.MetaDelivery: "1",
	}
	if w.features.Positions {
		want[broker.MetaPosition] = position
	}
	if diff := cmp.Diff(want, got.Metadata); diff != "" {
		w.Errorf("metadata (-want +got):\n%s", diff)
	}
	if empty.UUID != second.UUID || len(empty.Payload) != 0 {
		w.Errorf("got %s %q, want %s with no body", empty.UUID, empty.Payload, second.UUID)
	}
	partA, a, errA := parsePosition(position)
	partB, b, errB := parsePosition(empty.Metadata.Get(broker.MetaPosition))
	if !w.features.Positions {
		if position != "" || empty.Metadata.Get(broker.MetaPosition) != "" {
			w.Errorf("positions %q and %q, want none", position, empty.Metadata.Get(broker.MetaPosition))
		}
	} else if errA != nil || errB != nil || partA != partB || b <= a {
		w.Errorf("positions %q and %q, want growing numbers of one partition", position, empty.Metadata.Get(broker.MetaPosition))
	}
}

// parsePosition splits a position into the partition, where a topic has several,
// and the number.
func parsePosition(position string) (partition string, n uint64, err error) {
	if before, after, found := strings.Cut(position, "/"); found {
		partition, position = before, after
	}
	n, err = strconv.ParseUint(position, 10, 64)
	return partition, n, err
}

// independent acks nothing before all have come.
func independent(w *world) {
	n := fewer(2000, 500)
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	all := many(n / 2)
	for i := range n / 2 {
		if i%2 == 0 {
			all = append(all, plain("no key"))
		} else {
			all = append(all, keyed("call-0", "of one key"))
		}
	}
	w.publish(w, topic, all...)
	held := make([]*message.Message, 0, n)
	for range n {
		held = append(held, Next(w, messages))
	}
	none(w, messages, 50*time.Millisecond)
	for _, msg := range held {
		msg.Ack()
	}
}

func roles(w *world) {
	const n = 300
	topic := w.topic()
	other := w.start()
	alone := w.subscribe(w, "alone", topic)
	here, there := w.subscribe(w, "shared", topic), other.subscribe(w, "shared", topic)
	w.publish(w, topic, many(n)...)

	if seen := drain(w, alone, n); len(seen) != n {
		w.Errorf("got %d messages, want %d", len(seen), n)
	}
	seen := make(map[string]int)
	for range n {
		select {
		case msg := <-here:
			seen[string(msg.Payload)]++
			msg.Ack()
		case msg := <-there:
			seen[string(msg.Payload)]++
			msg.Ack()
		case <-time.After(timeout):
			w.Fatalf("only %d messages came", len(seen))
		}
	}
	if len(seen) != n {
		w.Errorf("two instances got %d different messages of %d, some twice", len(seen), n)
	}
	none(w, here, 20*time.Millisecond)
	none(w, there, 0)
}

func manyTopics(w *world) {
	const topics, each = 20, 100
	var work sync.WaitGroup
	base := w.topic()
	for i := range topics {
		topic := fmt.Sprint(base, "-", i)
		messages := w.subscribe(w, "reader", topic)
		work.Go(func() {
			all := many(each)
			if err := broker.NewWatermillPublisher(w.Publisher()).Publish(topic, all...); err != nil {
				w.Error(err)
				return
			}
			seen := make(map[string]bool)
			for range each {
				select {
				case msg := <-messages:
					if from := msg.Metadata.Get(broker.MetaTopic); from != topic {
						w.Errorf("a message of %s came from %s", from, topic)
					}
					seen[msg.UUID] = true
					msg.Ack()
				case <-time.After(timeout):
					w.Errorf("only %d messages came from %s", len(seen), topic)
					return
				}
			}
			for _, m := range all {
				if !seen[m.UUID] {
					w.Errorf("message %s did not come from %s", m.UUID, topic)
				}
			}
		})
	}
	work.Wait()
}

type contextKey struct{}

func contexts(w *world) {
	topic := w.topic()
	s := w.Subscriber("reader")
	defer s.Close()
	messages, err := s.Subscribe(context.WithValue(context.Background(), contextKey{}, "value"), topic)
	Must(w, err)
	w.publish(w, topic, many(3)...)
	acked, nacked, open := Next(w, messages), Next(w, messages), Next(w, messages)
	for _, msg := range []*message.Message{acked, nacked, open} {
		if got := msg.Context().Value(contextKey{}); got != "value" {
			w.Errorf("value %v", got)
		}
		if err := msg.Context().Err(); err != nil {
			w.Errorf("context ended before its time: %v", err)
		}
	}
	acked.Ack()
	nacked.Nack()
	for _, msg := range []*message.Message{acked, nacked} {
		select {
		case <-msg.Context().Done():
		case <-time.After(timeout):
			w.Fatal("the context outlives its message")
		}
	}
	if err := open.Context().Err(); err != nil {
		w.Errorf("context of an open message ended: %v", err)
	}
	w.close(s)
	select {
	case <-open.Context().Done():
	case <-time.After(timeout):
		w.Fatal("the context outlives Close")
	}
	if _, err := s.Subscribe(context.Background(), topic); err == nil {
		w.Error("Subscribe after Close works")
	}
}

// tailPromise is named by brokers without tails in [Features.Lacks].
const tailPromise = "A tail sees what comes later, and acks mean nothing to it"

func tails(w *world) {
	topic := w.topic()
	w.publish(w, topic, plain("before"))
	tail := w.Tail()
	messages, err := tail.Subscribe(context.Background(), topic)
	Must(w, err)
	var want, got []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		w.publish(w, topic, keyed("call-1", fmt.Sprint(i)))
	}
	for i := range want {
		msg := Next(w, messages)
		got = append(got, string(msg.Payload))
		if from := msg.Metadata.Get(broker.MetaTopic); from != topic {
			w.Errorf("topic %q, want %q", from, topic)
		}
		if i%2 == 0 {
			msg.Nack() // and half of them are never acked
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("seen (-want +got):\n%s", diff)
	}
	none(w, messages, 50*time.Millisecond)
	w.close(tail)
	if _, ok := <-messages; ok {
		w.Error("a message after Close")
	}
}

func ends(w *world) {
	topic := w.topic()
	messages, s := w.open(w, "reader", topic)
	tail, err := w.Tail().Subscribe(context.Background(), topic)
	if _, lacks := w.features.Lacks[tailPromise]; err != nil && !lacks {
		w.Fatal(err)
	}
	w.publish(w, topic, plain("in flight"))
	inFlight := Next(w, messages)
	if err == nil {
		Next(w, tail)
	}
	if err := w.Broker.Run(context.Background()); err == nil {
		w.Error("a second Run works")
	}
	w.stop()
	for _, c := range []<-chan *message.Message{messages, tail} {
		if c == nil {
			continue
		}
		if msg, ok := <-c; ok {
			w.Errorf("message %q after the end", msg.Payload)
		}
	}
	inFlight.Ack() // has no effect, and breaks nothing
	if err := broker.NewWatermillPublisher(w.Publisher()).Publish(topic, plain("too late")); err == nil {
		w.Error("Publish after the end works")
	}
	if w.Ready(w.Context()) == nil {
		w.Error("ready after the end")
	}
	if _, err := w.Subscriber("late").Subscribe(context.Background(), topic); err == nil {
		w.Error("Subscribe after the end works")
	}
	if err := s.Close(); err != nil {
		w.Errorf("Close after the end: %v", err)
	}
}

func cancels(w *world) {
	topic := w.topic()
	s := w.Subscriber("reader")
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	messages, err := s.Subscribe(ctx, topic)
	Must(w, err)
	w.publish(w, topic, many(2)...)
	first, second := Next(w, messages), Next(w, messages)
	cancel()
	if msg, ok := <-messages; ok {
		w.Errorf("message %q after the intake ended", msg.Payload)
	}
	w.publish(w, topic, keyed("call-2", "2"))
	first.Ack()
	again, err := s.Subscribe(context.Background(), topic)
	Must(w, err)
	if msg := Next(w, again); string(msg.Payload) != "2" {
		w.Errorf("got %q, want the one published meanwhile", msg.Payload)
	} else {
		msg.Ack()
	}
	if w.fake { // time for the limits of the server to pass
		time.Sleep(time.Minute)
	}
	second.Ack()
	wait := 50 * time.Millisecond
	if w.fake {
		wait = time.Minute
	}
	none(w, again, wait)
}
