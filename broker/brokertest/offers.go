package brokertest

import (
	"context"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// offers subscribes a role to offers.
func (n *node) offers(
	ctx context.Context, w *world, topic string, take func(envelope.Offer) bool,
) (<-chan *message.Message, message.Subscriber) {
	w.Helper()
	s := n.Subscriber("reader")
	w.Cleanup(func() { _ = s.Close() })
	messages, err := s.(broker.Offerer).SubscribeOffers(ctx, topic, take)
	if err != nil {
		w.Fatalf("subscribe to offers of %s: %v", topic, err)
	}
	return messages, s
}

// offersMeet takes two of three messages, acks one of them and passes the other
// on.
func offersMeet(w *world) {
	const n = 300
	topic := w.topic()
	taken := make(chan envelope.Offer, n)
	messages, _ := w.offers(context.Background(), w, topic, func(o envelope.Offer) bool {
		i, err := strconv.Atoi(string(o.Body()))
		if err != nil || o.Topic() != topic || o.Header(envelope.HeaderTenantID) != "acme" || o.Header("absent") != "" || o.Deliveries() != 1 && w.fake {
			w.Errorf("offered %q of %q, tenant %q", o.Body(), o.Topic(), o.Header(envelope.HeaderTenantID))
		}
		if i%3 == 0 {
			return false
		}
		taken <- o
		return true
	})
	w.publish(w, topic, many(n)...)
	go func() {
		for range n / 3 * 2 {
			o := <-taken
			if i, _ := strconv.Atoi(string(o.Body())); i%3 == 1 {
				o.Ack()
			} else {
				o.Pass()
			}
		}
	}()
	for body, times := range drain(w, messages, n/3*2) {
		if i, _ := strconv.Atoi(body); i%3 == 1 || times > 1 && w.fake {
			w.Errorf("message %s was delivered %d times", body, times)
		}
	}
	wait := 100 * time.Millisecond
	if w.fake {
		wait = 5 * time.Minute
	}
	none(w, messages, wait)
	if len(taken) > 0 {
		w.Errorf("%d were offered again", len(taken))
	}
}

// offersEnd settles offers after the intake has ended.
func offersEnd(w *world) {
	topic := w.topic()
	taken := make(chan envelope.Offer, 3)
	ctx, end := context.WithCancel(context.Background())
	messages, s := w.offers(ctx, w, topic, func(o envelope.Offer) bool {
		taken <- o
		return true
	})
	w.publish(w, topic, many(3)...)
	var offers []envelope.Offer
	for range 3 {
		offers = append(offers, <-taken)
	}
	end()
	if msg, ok := <-messages; ok {
		w.Errorf("message %q after the intake ended", msg.Payload)
	}
	again, err := s.Subscribe(context.Background(), topic)
	if err != nil {
		w.Fatal(err)
	}
	none(w, again, 100*time.Millisecond)
	offers[0].Ack()
	offers[1].Pass()
	offers[2].Pass()
	began := time.Now()
	seen := drain(w, again, 2)
	if took := time.Since(began); w.fake && took > 5*time.Second {
		w.Errorf("what was passed on came after %v only", took)
	}
	if seen[string(offers[1].Body())] == 0 || seen[string(offers[2].Body())] == 0 {
		w.Errorf("got %v, want those that were passed on", seen)
	}
	wait := 100 * time.Millisecond
	if w.fake {
		wait = 5 * time.Minute
	}
	none(w, again, wait)
}

// offersTakeTime keeps an offer for longer than any server waits.
func offersTakeTime(w *world) {
	topic := w.topic()
	taken := make(chan envelope.Offer, 10)
	messages, _ := w.offers(context.Background(), w, topic, func(o envelope.Offer) bool {
		taken <- o
		return true
	})
	w.publish(w, topic, many(1)...)
	o := <-taken
	none(w, messages, 10*time.Minute)
	if len(taken) > 0 {
		w.Error("offered again while it was worked on")
	}
	o.Ack()
	none(w, messages, 10*time.Minute)
	if len(taken) > 0 {
		w.Error("offered again after the ack")
	}
}
