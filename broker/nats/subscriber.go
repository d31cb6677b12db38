package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// maxDurable is the most bytes of a consumer's name that people can read; a hash follows.
const maxDurable = 128

// subscriber subscribes for a role. See [broker.Broker] for its contract. After Close,
// messages in flight can still be acked for as long as the server waits for their acks
// and [Broker.Run] runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// Subscribe delivers the messages of a topic that the role has not acked yet, in no
// order. The topic may hold wildcards. Subscribe returns an error only after Close, or if
// the topic is invalid.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !s.Join() {
		return nil, inflight.ErrClosed
	}
	ctx, stop := s.Until(ctx)
	sub := newSubscription(ctx, s, s.broker.opt.Prefix+durable(s.role, topic), topic)
	if topic == s.broker.opt.Routing.Subscription() {
		sub.role = s.role
	}
	s.broker.setOpen(sub, true)
	go func() {
		defer s.broker.term.Done()
		defer stop()
		defer s.broker.setOpen(sub, false)
		sub.run(ctx)
	}()
	return sub.window.Messages(), nil
}

// ConsumerName returns the name of the durable consumer of a role and a topic.
func ConsumerName(role, topic string) string { return durable(role, topic) }

// durable names the consumer of a role and a topic. It is stable, since the
// position of the role is kept under it.
func durable(role, topic string) string {
	name := strings.NewReplacer(".", "-", "*", "any", ">", "all").Replace(topic)
	clean := token(role) + "_" + token(name)
	if clean == role+"_"+name && !strings.Contains(role, "_") && !strings.ContainsAny(topic, "_-*>") && len(clean) <= maxDurable {
		return clean
	}
	sum := sha256.Sum256([]byte(role + "\n" + topic)) // without it two topics could share a position
	return clean[:min(len(clean), maxDurable)] + "-" + hex.EncodeToString(sum[:4])
}

// token replaces the characters that the name of a consumer can't have.
func token(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}
