package brokertest

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// retryDelays nacks a message more often than any limit of a broker that was left in
// place.
func retryDelays(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "failing"))
	var last time.Time
	for i := range fewer(200, 40) {
		msg := Next(w, messages)
		if got, want := msg.Metadata.Get(broker.MetaDelivery), fmt.Sprint(i+1); got != want {
			w.Fatalf("delivery %s, want %s", got, want)
		}
		if i > 0 {
			want := []time.Duration{time.Second, 5 * time.Second, 25 * time.Second}[min(i, 3)-1]
			if got := time.Since(last); got < want*8/10 || got > want*12/10+100*time.Millisecond {
				w.Fatalf("delivery %d came after %v, want %v", i+1, got, want)
			}
		}
		last = time.Now()
		msg.Nack()
	}
	Next(w, messages).Ack()
	none(w, messages, 5*time.Minute)
}

// retriesOnce nacks a message once.
func retriesOnce(w *world) {
	slack := timeout // on a busy machine
	if w.fake {
		slack = 300 * time.Millisecond
	}
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "failing"))
	msg := Next(w, messages)
	began := time.Now()
	msg.Nack()
	again := Next(w, messages)
	if waited := time.Since(began); waited < 800*time.Millisecond || waited > time.Second+slack {
		w.Errorf("came again after %v, want about a second", waited)
	}
	if string(again.Payload) != "failing" || broker.Deliveries(again) != 2 {
		w.Errorf("got %q, delivery %d, want the same, delivery 2", again.Payload, broker.Deliveries(again))
	}
	again.Ack()
	w.noneLater(messages)
}

// retryPromise is named in [Features.Lacks] by brokers whose messages wait for failed ones.
const retryPromise = "Messages that wait for their retry hold back no other"

// waitingRetries nacks many messages until all good ones that were published behind them are
// handled. It nacks fewer than a subscription has in flight at once.
func waitingRetries(w *world) {
	const waiting, good, each = 500, 3000, 500
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	failing := many(waiting)
	for _, m := range failing {
		m.Payload = []byte("failing")
	}
	w.supply(w, topic, failing...)
	for range good / each {
		w.supply(w, topic, many(each)...)
	}
	began := time.Now()
	deliveries := make(map[string]int) // of failing messages, by id
	acked := make(map[string]bool)
	for len(acked) < good || len(deliveries) < waiting {
		msg := Next(w, messages)
		if string(msg.Payload) != "failing" {
			acked[msg.UUID] = true
			msg.Ack()
			continue
		}
		if deliveries[msg.UUID]++; broker.Deliveries(msg) != deliveries[msg.UUID] && w.fake {
			w.Fatalf("delivery %d, want %d", broker.Deliveries(msg), deliveries[msg.UUID])
		}
		msg.Nack()
	}
	if took := time.Since(began); w.fake && took > 500*time.Millisecond {
		w.Errorf("all others were handled after %v, behind the first retries", took)
	}
	for len(deliveries) > 0 { // none was lost
		msg := Next(w, messages)
		delete(deliveries, msg.UUID)
		msg.Ack()
	}
	w.noneLater(messages)
}

// retriesElsewhere stops a process while a message waits there for its retry, and its handler
// has another one that it nacks then.
func retriesElsewhere(w *world) {
	topic := w.topic()
	w.know(w, "reader", topic)
	first := w.start()
	messages, s := first.open(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "failing"))
	Next(w, messages).Nack()
	Next(w, messages).Nack() // then it waits for 5 s
	w.publish(w, topic, keyed("call-2", "failing"))
	late := Next(w, messages)
	w.close(s)
	pause(100 * time.Millisecond)
	late.Nack()
	pause(100 * time.Millisecond)
	first.stop()
	began := time.Now()
	second := w.start().subscribe(w, "reader", topic)
	for range 2 {
		again := Next(w, second)
		if waited := time.Since(began); string(again.Payload) != "failing" || w.fake && waited > 3*time.Second {
			w.Errorf("%q came to another process after %v", again.Payload, waited)
		}
		again.Ack()
	}
	w.noneLater(second)
}

// noneLater fails the test if a message comes within five minutes, on fake time.
func (w *world) noneLater(messages <-chan *message.Message) {
	w.Helper()
	if w.fake {
		none(w, messages, 5*time.Minute)
	}
}

// slowHandler holds messages for longer than any limit of a broker. Messages that a
// subscriber still has when it is closed go to the next one.
func slowHandler(w *world) {
	topic := w.topic()
	messages, s := w.open(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "slow"), plain("slow too"))
	one, two := Next(w, messages), Next(w, messages)
	none(w, messages, 10*time.Minute)
	one.Ack()
	w.close(s)

	rest := w.start().subscribe(w, "reader", topic)
	if !w.features.Durable {
		none(w, rest, 10*time.Minute) // forgotten with its last subscriber
		return
	}
	msg, count := Next(w, rest), 2
	if w.features.Uncounted {
		count = 1
	}
	if string(msg.Payload) != string(two.Payload) || broker.Deliveries(msg) != count {
		w.Errorf("got %q, delivery %d, want %q, delivery %d", msg.Payload, broker.Deliveries(msg), two.Payload, count)
	}
	msg.Ack()
	two.Ack() // too late, and without effect
	none(w, rest, 10*time.Minute)
}
