package brokertest

import "time"

// storeDown nacks whatever comes, as handlers do while the store is down, and
// acks everything when it is up again.
func storeDown(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	n, during, most := 6000, 1500*time.Millisecond, 2 // at 0, and once between 0.8 and 1.2 s; more than are in flight at once
	if w.fake {
		n, during, most = 1000, time.Minute, 5 // at 0, 1, 6, 31 and 56 s, or a little sooner
	}
	all := many(n)
	for len(all) > 0 {
		w.publish(w, topic, all[:1000]...)
		all = all[1000:]
	}
	deliveries := make(map[string]int)
	for late := time.After(during); late != nil; {
		select {
		case msg := <-messages:
			deliveries[string(msg.Payload)]++
			msg.Nack()
		case <-late:
			late = nil
		}
	}
	for body, times := range deliveries {
		if times > most {
			w.Fatalf("message %s was delivered %d times within %v, want at most %d", body, times, during, most)
		}
	}
	if len(deliveries) == 0 {
		w.Error("nothing was delivered")
	}
	for body, times := range drain(w, messages, n) {
		if times > 1 && w.fake {
			w.Errorf("message %s was delivered %d times after the store was up", body, times)
		}
	}
}
