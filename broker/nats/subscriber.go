package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
)

// maxDurable is how much of the name of a consumer is for people.
const maxDurable = 128

// subscriber subscribes for a role. See [broker.Broker] for its contract. After
// Close messages in flight can still be acked, for as long as the server waits
// for them and [Broker.Run] runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// Subscribe delivers what the role has not acked yet, of a topic that may hold
// wildcards. It returns an error only after Close, or if the topic can't be one.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return s.SubscribeOffers(ctx, topic, nil)
}

// SubscribeOffers subscribes as Subscribe does, and offers each message to take
// first unless that is nil. See [broker.Offerer].
func (s *subscriber) SubscribeOffers(
	ctx context.Context, topic string, take func(envelope.Offer) bool,
) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !s.Join() {
		return nil, ErrClosed
	}
	sub := &subscription{
		broker:  s.broker,
		topic:   topic,
		durable: s.broker.opt.Prefix + durable(s.role, topic),
		closing: s.Closing(),
		taker:   take,
		out:     make(chan *message.Message),
		over:    make(chan struct{}),
		held:    make(map[position]*delivery),
		room:    make(chan struct{}, 1),
	}
	go func() {
		defer s.broker.term.Done()
		sub.run(ctx, s.Left)
	}()
	return sub.out, nil
}

// durable names the consumer of a role and a topic. It is stable, since the
// position of the role is kept under it.
func durable(role, topic string) string {
	name := strings.NewReplacer(".", "-", "*", "any", ">", "all").Replace(topic)
	clean := token(role) + "_" + token(name)
	if clean == role+"_"+name && !strings.Contains(role, "_") && !strings.ContainsAny(topic, "_-*>") && len(clean) <= maxDurable {
		return clean
	}
	sum := sha256.Sum256([]byte(role + "\n" + topic)) // else two topics could share a position
	return clean[:min(len(clean), maxDurable)] + "-" + hex.EncodeToString(sum[:4])
}

// token makes s fit the name of a consumer.
func token(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}

var _ broker.Offerer = (*subscriber)(nil)
