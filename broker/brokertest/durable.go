package brokertest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

func lateRole(w *world) {
	topic := w.topic()
	w.publish(w, topic, many(100)...)
	drain(w, w.subscribe(w, "early", topic), 100)
	drain(w, w.subscribe(w, "late", topic), 100)
}

// slowStop is the longest stop while the server answers.
const slowStop = 100 * time.Millisecond

func resumes(w *world) {
	const n, taken = 500, 200
	newest := strconv.Itoa(n - 1)
	topic := w.topic()
	w.know(w, "reader", topic)
	w.publish(w, topic, many(n)...)
	first := w.start()
	messages, s := first.open(w, "reader", topic)
	acked := make(map[string]bool)
	for range taken {
		msg := Next(w, messages)
		acked[string(msg.Payload)] = true
		msg.Ack()
	}
	w.close(s)
	stopping := time.Now()
	first.stop() // which sends the acks
	// A stop waits for a real server no longer than a fraction of a second. One that takes
	// longer may not have read all acks, and then delivers their messages again.
	stopped := time.Since(stopping)
	slow := !w.fake && stopped > slowStop

	second := w.start()
	rest := second.subscribe(w, "reader", topic)
	began := time.Now()
	seen := make(map[string]bool)
	for len(seen) < n-taken {
		msg := Next(w, rest)
		body := string(msg.Payload)
		if acked[body] && w.features.Repeats && body == newest {
			acked[body] = false // once
			msg.Ack()
			continue
		}
		if acked[body] && (slow || w.features.LosesAcks) {
			w.Logf("message %s came again, though it was acked, after a stop of %v", body, stopped)
			msg.Ack()
			continue
		}
		if acked[body] {
			w.Fatalf("message %s came again, though it was acked, after a stop of %v: delivery %s, position %s", body, stopped, msg.Metadata.Get(broker.MetaDelivery), msg.Metadata.Get(broker.MetaPosition))
		}
		if seen[body] && w.fake { // a real server may hand over twice what was handed back at the close
			w.Fatalf("message %s came twice after the restart", body)
		}
		seen[body] = true
		msg.Ack()
		if waited := time.Since(began); w.fake && waited > 5*time.Second {
			w.Fatalf("message %d of the rest came only after %v", len(seen), waited)
		}
	}
	wait := 100 * time.Millisecond
	if w.fake {
		wait = 5 * time.Minute
	}
	if !w.features.Repeats {
		none(w, rest, wait)
	}
}

func closes(w *world) {
	const n, held = 300, 40
	topic := w.topic()
	w.know(w, "reader", topic)
	w.publish(w, topic, many(n)...)
	first := w.start()
	messages, s := first.open(w, "reader", topic)
	seen := make(map[string]bool)
	for i := range held * 2 {
		msg := Next(w, messages)
		if i%2 == 0 {
			seen[string(msg.Payload)] = true
			msg.Ack()
		} // the others are in flight for ever
	}
	w.close(s)
	if msg, ok := <-messages; ok {
		w.Errorf("message %s after Close", msg.Payload)
	}
	first.stop()

	rest := w.start().subscribe(w, "reader", topic)
	for len(seen) < n {
		msg := Next(w, rest)
		seen[string(msg.Payload)] = true
		msg.Ack()
	}
}

func comeAndGo(w *world) {
	const visitors = 20
	n := fewer(1000, 500)
	topic := w.topic()
	w.know(w, "reader", topic)
	var (
		mu   sync.Mutex
		seen = make(map[string]int)
		work sync.WaitGroup
	)
	work.Go(func() {
		for i := range n / 10 {
			for j, m := range many(10) {
				m.Payload = []byte(strconv.Itoa(i*10 + j))
				if err := broker.NewWatermillPublisher(w.Publisher()).Publish(topic, m); err != nil {
					w.Error(err)
				}
			}
		}
	})
	for v := range visitors {
		work.Go(func() {
			s := w.Subscriber("reader")
			messages, err := s.Subscribe(w.Context(), topic)
			if err != nil {
				w.Error(err)
				return
			}
			for range 10 + v {
				select {
				case msg := <-messages:
					mu.Lock()
					seen[string(msg.Payload)]++
					mu.Unlock()
					msg.Ack()
				case <-time.After(timeout):
				}
			}
			w.close(s)
		})
	}
	work.Wait()
	last := w.subscribe(w, "reader", topic)
	for len(seen) < n {
		msg := Next(w, last)
		seen[string(msg.Payload)]++
		msg.Ack()
	}
	for i := range n {
		if seen[fmt.Sprint(i)] == 0 {
			w.Errorf("message %d was lost", i)
		}
	}
}
