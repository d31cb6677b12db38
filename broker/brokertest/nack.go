package brokertest

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

func nackDelays(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "sick"))
	var last time.Time
	for i := range 200 { // longer than any limit somebody might have forgotten
		msg := next(w, messages)
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
	next(w, messages).Ack()
	none(w, messages, 5*time.Minute)
}

func nackCalm(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "sick"), plain("sick"))
	during, most := 2500*time.Millisecond, 4 // at 0, and once between 0.8 and 1.2 s
	if w.fake {
		during, most = 10*time.Minute, 2*(3+int(10*time.Minute/(20*time.Second)))
	}
	late := time.After(during)
	for seen := 0; ; seen++ {
		select {
		case msg := <-messages:
			msg.Nack()
		case <-late:
			if seen < 4 || seen > most {
				w.Errorf("%d deliveries of two sick messages in %v, want at most %d", seen, during, most)
			}
			return
		}
	}
}

func nackGivesWay(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "sick"), keyed("call-1", "second"), keyed("call-1", "third"))
	next(w, messages).Nack()
	began := time.Now()
	for _, want := range []string{"second", "third", "sick"} {
		msg := next(w, messages)
		if string(msg.Payload) != want {
			w.Fatalf("got %q, want %q", msg.Payload, want)
		}
		if waited := time.Since(began); w.fake && want != "sick" && waited > 100*time.Millisecond {
			w.Errorf("%q waited %v", want, waited)
		}
		msg.Ack()
	}
}

func slowHandler(w *world) {
	topic := w.topic()
	messages, s := w.open(w, "reader", topic)
	w.publish(w, topic, keyed("call-1", "slow"), keyed("call-1", "waits in line"), plain("slow too"))
	one, two := next(w, messages), next(w, messages)
	none(w, messages, 10*time.Minute)
	if string(one.Payload) == "slow" {
		one, two = two, one
	}
	one.Ack()
	if err := s.Close(); err != nil { // nobody works on the others any more
		w.Errorf("Close: %v", err)
	}

	rest := w.start().subscribe(w, "reader", topic)
	if !w.features.Durable {
		none(w, rest, 10*time.Minute) // forgotten with its last subscriber
		return
	}
	for _, want := range []string{"waits in line", "slow"} { // the first was given back, the second was not
		msg := next(w, rest)
		if got := msg.Metadata.Get(broker.MetaDelivery); string(msg.Payload) != want || got != "2" {
			w.Errorf("got %q, delivery %s, want %q, delivery 2", msg.Payload, got, want)
		}
		msg.Ack()
	}
	two.Ack() // too late, and harmless
	none(w, rest, 10*time.Minute)
}
