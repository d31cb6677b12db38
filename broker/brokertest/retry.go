package brokertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

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

// namedDelays nacks messages with delays of the handler: short ones, and some
// that are longer than any that a broker has by itself.
func namedDelays(w *world) {
	delays, slack := []time.Duration{200 * time.Millisecond, time.Second, 0}, timeout // on a busy machine
	if w.fake {
		delays, slack = append(delays, 10*time.Minute), time.Second
		if !testing.Short() { // an hour has many heartbeats
			delays = append(delays, time.Hour)
		}
	}
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	for _, delay := range delays {
		w.publish(w, topic, keyed("call-1", "over quota"))
		msg := Next(w, messages)
		broker.RetryAfter(msg, delay)
		began := time.Now()
		msg.Nack()
		if delay > timeout {
			none(w, messages, delay-timeout/2)
		}
		again := Next(w, messages)
		if waited := time.Since(began); waited < delay-10*time.Millisecond || waited > delay+slack {
			w.Errorf("came again after %v, want %v", waited, delay)
		}
		if string(again.Payload) != "over quota" || broker.Deliveries(again) != 2 {
			w.Errorf("got %q, delivery %d, want the same, delivery 2", again.Payload, broker.Deliveries(again))
		}
		if w.fake { // a delay is for one nack
			began = time.Now()
			again.Nack()
			again = Next(w, messages)
			if waited := time.Since(began); waited < 4*time.Second || waited > 6*time.Second+slack {
				w.Errorf("came again after %v, want about 5s: its handler named no delay the second time", waited)
			}
		}
		again.Ack()
	}
}

// waitingRetries nacks several times as many messages as may be in flight at
// once, with a delay that is longer than the test, and then publishes good ones.
func waitingRetries(w *world) {
	const good, chunk = 100, 1000
	waiting := fewer(10_000, 5_000)
	delay := time.Minute
	if !w.fake {
		delay *= 10 // whatever else the machine does
	}
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	var publishing sync.WaitGroup
	w.Cleanup(publishing.Wait)
	publishing.Go(func() {
		for range waiting / chunk {
			all := many(chunk)
			for _, m := range all {
				m.Payload = []byte("over quota")
			}
			w.supply(w, topic, all...)
		}
		w.supply(w, topic, many(good)...)
	})
	began := time.Now()
	nacked := make(map[string]bool) // by id
	acked := make(map[string]bool)
	for again := 0; len(nacked) < waiting || len(acked) < good; {
		switch msg := Next(w, messages); string(msg.Payload) {
		case "over quota":
			if !nacked[msg.UUID] {
				nacked[msg.UUID] = true
			} else if again++; w.fake || again > waiting { // a real server may have taken one for lost before it got the nack
				w.Fatalf("%d came again within %v, though they have %v, and only %d of %d good ones have come", again, time.Since(began), delay, len(acked), good)
			}
			broker.RetryAfter(msg, delay)
			msg.Nack()
		default:
			acked[msg.UUID] = true
			msg.Ack()
		}
	}
	if !w.fake {
		return // the others come later
	}
	none(w, messages, 30*time.Second)
	for range waiting {
		Next(w, messages).Ack()
	}
	if waited := time.Since(began); waited < time.Minute || waited > 90*time.Second {
		w.Errorf("the last of those that waited came after %v, want about a minute", waited)
	}
	none(w, messages, 5*time.Minute)
}

// slowHandler holds messages for longer than any limit of a broker. What a
// subscriber still has when it is closed goes to the next one.
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
