package handlers

import (
	"context"
	"strconv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
)

// An offerer is a subscriber that offers messages, as a broker's may.
type offerer interface {
	SubscribeOffers(ctx context.Context, topic string, take func(envelope.Offer) bool) (<-chan *message.Message, error)
}

// subscribeOffers subscribes to offers, of whatever subscriber.
func subscribeOffers(
	ctx context.Context, sub message.Subscriber, topic string, take func(envelope.Offer) bool,
) (<-chan *message.Message, error) {
	if o, ok := sub.(offerer); ok {
		return o.SubscribeOffers(ctx, topic, take)
	}
	in, err := sub.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		var open sync.WaitGroup // offers that were taken
		defer open.Wait()
		for msg := range in {
			open.Add(1)
			if !take(offered{received{msg}, out, &open}) {
				open.Done()
				out <- msg
			}
		}
	}()
	return out, nil
}

// received is a message as an [incoming].
type received struct{ *message.Message }

func (r received) Topic() string { return r.Metadata.Get(envelope.MetaTopic) }

func (r received) Header(name string) string { return r.Metadata.Get(name) }

func (r received) Body() []byte { return r.Payload }

func (r received) Deliveries() int {
	n, err := strconv.Atoi(r.Metadata.Get(envelope.MetaDelivery))
	if err != nil {
		return 1
	}
	return n
}

// offered is a message as an offer.
type offered struct {
	received
	out  chan<- *message.Message
	open *sync.WaitGroup
}

func (o offered) Ack() {
	defer o.open.Done()
	o.Message.Ack()
}

func (o offered) Pass() {
	defer o.open.Done()
	o.out <- o.Message
}
