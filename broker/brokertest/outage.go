package brokertest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

func restarts(w *world) {
	const n, each, stops = 2000, 10, 3
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	var published atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		all := many(n)
		for len(all) > 0 {
			batch := make([]*message.Message, each)
			for i, m := range all[:each] {
				batch[i] = m.Copy()
			}
			if w.Publisher().Publish(topic, batch...) != nil {
				pause(10 * time.Millisecond)
				continue // with the same ids
			}
			all = all[each:]
			published.Add(each)
		}
	}()

	seen := make(map[string]bool)
	for stop := range stops {
		for len(seen) < (stop+1)*n/(stops+1) {
			msg := next(w, messages)
			seen[string(msg.Payload)] = true
			msg.Ack()
		}
		w.server.Stop()
		w.server.Start()
	}
	for len(seen) < n {
		msg := next(w, messages)
		seen[string(msg.Payload)] = true
		msg.Ack()
	}
	<-done
	if published.Load() != n {
		w.Errorf("published %d, want %d", published.Load(), n)
	}
}

// pause waits for d: a producer that tries again.
func pause(d time.Duration) { <-time.After(d) }

func down(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, plain("before"))
	msg := next(w, messages)
	msg.Ack()
	w.server.Stop()

	await(w, "a broker that is not ready", func() bool { return w.Ready(w.Context()) != nil })
	for range 3 {
		if err := w.Publisher().Publish(topic, plain("lost")); err == nil {
			w.Error("Publish works without a server")
		}
	}
	w.server.Start()
	await(w, "a broker that is ready again", func() bool { return w.Ready(w.Context()) == nil })
	w.publish(w, topic, plain("after"))
	for {
		msg := next(w, messages)
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
	if err := n.Publisher().Publish(topic, plain("lost")); err == nil {
		w.Error("Publish works without a server")
	}
	if n.Ready(w.Context()) == nil {
		w.Error("ready without a server")
	}
	w.server.Start()
	await(w, "a broker that is ready", func() bool { return n.Ready(w.Context()) == nil })
	all := many(100)
	n.publish(w, topic, all...)
	if seen := drain(w, messages, len(all)); len(seen) != len(all) {
		w.Error(fmt.Sprint(seen))
	}
}
