package brokertest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

func restarts(w *world) {
	const each, stops = 10, 3
	n := fewer(2000, 600)
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	var published atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		all := many(n)
		for len(all) > 0 {
			batch := make([]*message.Message, min(each, len(all)))
			for i, m := range all[:len(batch)] {
				batch[i] = m.Copy()
			}
			var failed []*message.Message // they are published again with the same ids
			for i, err := range w.send(topic, batch...) {
				if err != nil {
					failed = append(failed, all[i])
				}
			}
			published.Add(int64(len(batch) - len(failed)))
			if all = append(failed, all[len(batch):]...); len(failed) > 0 {
				pause(10 * time.Millisecond)
			}
		}
	}()

	seen := make(map[string]bool)
	for stop := range stops {
		for len(seen) < (stop+1)*n/(stops+1) {
			msg := Next(w, messages)
			seen[string(msg.Payload)] = true
			msg.Ack()
		}
		w.server.Stop()
		w.server.Start()
	}
	for len(seen) < n {
		msg := Next(w, messages)
		seen[string(msg.Payload)] = true
		msg.Ack()
	}
	<-done
	if published.Load() != int64(n) {
		w.Errorf("published %d, want %d", published.Load(), n)
	}
}

// pause waits for d: a producer that tries again.
func pause(d time.Duration) { <-time.After(d) }

func down(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, plain("before"))
	msg := Next(w, messages)
	msg.Ack()
	w.server.Stop()

	Await(w, "a broker that is not ready", func() bool { return w.Ready(w.Context()) != nil })
	for range 3 {
		if err := w.send(topic, plain("lost"))[0]; !errors.Is(err, broker.ErrUnavailable) {
			w.Errorf("without a server: %v, want ErrUnavailable", err)
		}
	}
	w.server.Start()
	AwaitReady(w, w.node)
	w.supply(w, topic, plain("after"))
	for {
		msg := Next(w, messages)
		msg.Ack()
		if string(msg.Payload) == "after" {
			return
		}
		if string(msg.Payload) != "before" { // its ack may not have arrived
			w.Fatalf("got %q", msg.Payload)
		}
	}
}

func early(w *world) {
	w.stop()
	w.server.Stop()
	n := w.run()
	topic := w.topic()
	messages := n.subscribe(w, "reader", topic)
	if err := n.send(topic, plain("lost"))[0]; !errors.Is(err, broker.ErrUnavailable) {
		w.Errorf("without a server: %v, want ErrUnavailable", err)
	}
	if n.Ready(w.Context()) == nil {
		w.Error("ready without a server")
	}
	w.server.Start()
	AwaitReady(w, n)
	all := many(100)
	n.supply(w, topic, all...)
	if seen := drain(w, messages, len(all)); len(seen) != len(all) {
		w.Error(fmt.Sprint(seen))
	}
}
