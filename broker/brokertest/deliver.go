package brokertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
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
	w.publish(w, topic, sent, second)

	got := next(w, messages)
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
	got.Ack()
	empty := next(w, messages)
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
	empty.Ack()
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

func nothing(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	p := w.Publisher()
	if err := p.Publish(topic); err != nil {
		w.Errorf("publish of nothing: %v", err)
	}
	if err := p.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
	w.publish(w, topic, plain("after Close"))
	if got := next(w, messages); string(got.Payload) != "after Close" {
		w.Errorf("got %q", got.Payload)
	}
}

// A checker acks messages of many keys at once, after a moment, and notes if
// two of one key are in flight together or out of order.
type checker struct {
	mu       sync.Mutex
	last     map[string]int  // number of the last message, by key
	busy     map[string]bool // by key
	together int             // messages in flight
	most     int             // of those, ever
	wrong    []string
	work     sync.WaitGroup
}

func (c *checker) handle(key string, msg *message.Message) {
	n, err := strconv.Atoi(msg.Metadata.Get("number"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last, c.busy = make(map[string]int), make(map[string]bool)
	}
	if err != nil || n != c.last[key]+1 || c.busy[key] {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d after %d, busy: %v (%v)", key, n, c.last[key], c.busy[key], err))
	}
	c.last[key], c.busy[key] = n, true
	c.together++
	c.most = max(c.most, c.together)
	c.work.Go(func() {
		for range rand.IntN(100) {
			runtime.Gosched() // let others overtake, if they can
		}
		c.mu.Lock()
		c.busy[key] = false
		c.together--
		c.mu.Unlock()
		msg.Ack()
	})
}

func ordered(w *world) {
	const keys, each = 200, 25
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	var c checker
	c.work.Go(func() {
		for n := range each {
			batch := make([]*message.Message, keys)
			for k := range keys {
				batch[k] = keyed(fmt.Sprint("call-", k), "")
				batch[k].Metadata.Set("number", strconv.Itoa(n+1))
			}
			if err := w.Publisher().Publish(topic, batch...); err != nil {
				w.Error(err)
			}
		}
	})
	for range keys * each {
		msg := next(w, messages)
		c.handle(msg.Metadata.Get(envelope.HeaderServiceCallID), msg)
	}
	c.work.Wait()
	if len(c.wrong) > 0 {
		w.Errorf("%d times out of order, first %s", len(c.wrong), c.wrong[0])
	}
	if c.most < 2 {
		w.Error("no two keys were ever in flight together")
	}
}

func orderedByBody(w *world) {
	const keys, each = 20, 20
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	var batch []*message.Message
	for n := range each {
		for k := range keys {
			m := plain(fmt.Sprintf(`{"id":"%d-%d","type":"ScheduleTimer","tenantId":"acme","payload":{"serviceCallId":"call-%d"}}`, n, k, k))
			m.Metadata.Set("number", strconv.Itoa(n+1))
			m.Metadata.Set("key", strconv.Itoa(k))
			batch = append(batch, m)
		}
	}
	w.publish(w, topic, batch...)
	var c checker
	for range batch {
		msg := next(w, messages)
		c.handle(msg.Metadata.Get("key"), msg)
	}
	c.work.Wait()
	if len(c.wrong) > 0 {
		w.Errorf("%d times out of order, first %s", len(c.wrong), c.wrong[0])
	}
}

func independent(w *world) {
	const n = 2000
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	all := append(many(n/2), keyed("call-0", "behind call-0"))
	for range n / 2 {
		all = append(all, plain("no key"))
	}
	w.publish(w, topic, all...)
	held := make([]*message.Message, 0, n)
	for range n { // nobody acks, and all but one come
		msg := next(w, messages)
		if string(msg.Payload) == "behind call-0" {
			w.Fatal("the second message of a key came before the first was acked")
		}
		held = append(held, msg)
	}
	none(w, messages, 50*time.Millisecond)
	for _, msg := range held {
		msg.Ack()
	}
	if msg := next(w, messages); string(msg.Payload) != "behind call-0" {
		w.Errorf("got %q", msg.Payload)
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
		case <-time.After(patience):
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
			if err := w.Publisher().Publish(topic, all...); err != nil {
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
				case <-time.After(patience):
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
	if err != nil {
		w.Fatal(err)
	}
	w.publish(w, topic, many(3)...)
	acked, nacked, open := next(w, messages), next(w, messages), next(w, messages)
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
		case <-time.After(patience):
			w.Fatal("the context outlives its message")
		}
	}
	if err := open.Context().Err(); err != nil {
		w.Errorf("context of an open message ended: %v", err)
	}
	if err := s.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
	select {
	case <-open.Context().Done():
	case <-time.After(patience):
		w.Fatal("the context outlives Close")
	}
	if _, err := s.Subscribe(context.Background(), topic); err == nil {
		w.Error("Subscribe after Close works")
	}
}

func tails(w *world) {
	topic := w.topic()
	w.publish(w, topic, plain("before"))
	tail := w.Tail()
	messages, err := tail.Subscribe(context.Background(), topic)
	if err != nil {
		w.Fatal(err)
	}
	var want, got []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		w.publish(w, topic, keyed("call-1", fmt.Sprint(i)))
	}
	for i := range want {
		msg := next(w, messages)
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
	if err := tail.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
	if _, ok := <-messages; ok {
		w.Error("a message after Close")
	}
}

func ends(w *world) {
	topic := w.topic()
	messages, s := w.open(w, "reader", topic)
	tail, err := w.Tail().Subscribe(context.Background(), topic)
	if err != nil {
		w.Fatal(err)
	}
	w.publish(w, topic, plain("in flight"))
	inFlight := next(w, messages)
	next(w, tail)
	if err := w.Broker.Run(context.Background()); err == nil {
		w.Error("a second Run works")
	}
	w.stop()
	for _, c := range []<-chan *message.Message{messages, tail} {
		if msg, ok := <-c; ok {
			w.Errorf("message %q after the end", msg.Payload)
		}
	}
	inFlight.Ack() // means nothing, and breaks nothing
	if err := w.Publisher().Publish(topic, plain("too late")); err == nil {
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
	if err != nil {
		w.Fatal(err)
	}
	w.publish(w, topic, many(2)...)
	first, second := next(w, messages), next(w, messages)
	cancel()
	if msg, ok := <-messages; ok {
		w.Errorf("message %q after the intake ended", msg.Payload)
	}
	w.publish(w, topic, keyed("call-2", "2"))
	first.Ack()
	again, err := s.Subscribe(context.Background(), topic)
	if err != nil {
		w.Fatal(err)
	}
	if msg := next(w, again); string(msg.Payload) != "2" {
		w.Errorf("got %q, want the one published meanwhile", msg.Payload)
	} else {
		msg.Ack()
	}
	if w.fake { // time for the server to lose patience
		time.Sleep(time.Minute)
	}
	second.Ack()
	wait := 50 * time.Millisecond
	if w.fake {
		wait = time.Minute
	}
	none(w, again, wait)
}
