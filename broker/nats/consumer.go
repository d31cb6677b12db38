package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	ackWait       = 30 * time.Second // after which a message that nobody keeps alive comes again
	minAckWait    = 2 * heartbeat    // below, what is being worked on comes again
	maxAckPending = 4096             // messages in flight, of all instances of a role together
	minAckPending = 256              // below, few keys wait for each other
	minWaiting    = 16               // instances that may ask for messages at the same time
)

// errMissing says that something is not there, and that it is not for us to make
// it.
var errMissing = errors.New("it is missing; an administrator makes it with: timer-service provision")

// consumerConfig returns that of the durable consumer of a role and a topic.
func consumerConfig(durable, topic string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		FilterSubject: topic,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1, // a limit would park messages silently
		MaxAckPending: maxAckPending,
	}
}

// ensureConsumer finds the durable consumer, makes it if it is absent, and sets
// again what was changed, unless that is for others to do. It returns when the
// consumer was created.
func (b *Broker) ensureConsumer(ctx context.Context, s *session, durable, topic string) (time.Time, error) {
	want := consumerConfig(durable, topic)
	info, err := b.lookUpConsumer(ctx, s, durable)
	unfit := error(nil)
	switch {
	case err == nil:
		if unfit = verifyConsumer(info.Config, want); unfit == nil {
			return info.Created, nil
		}
		if b.opt.Verify {
			return time.Time{}, unfit
		}
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return time.Time{}, fmt.Errorf("consumer %s: %w", durable, err)
	case b.opt.Verify:
		return time.Time{}, fmt.Errorf("consumer %s of stream %s: %w", durable, b.opt.Stream, errMissing)
	}
	info, err = b.makeConsumer(ctx, s, want)
	if err == nil {
		err = verifyConsumer(info.Config, want) // some settings can't be changed
	} else if err = fmt.Errorf("consumer %s: %w", durable, err); unfit != nil {
		err = fmt.Errorf("%w (%w)", unfit, err)
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}

// lookUpConsumer asks for a consumer. The client library refuses to look at one
// that pushes.
func (b *Broker) lookUpConsumer(ctx context.Context, s *session, durable string) (*jetstream.ConsumerInfo, error) {
	var info jetstream.ConsumerInfo
	err := b.ask(ctx, s, "CONSUMER.INFO."+b.opt.Stream+"."+durable, struct{}{}, &info)
	return &info, err
}

// makeConsumer makes a consumer, or changes the one there is.
func (b *Broker) makeConsumer(ctx context.Context, s *session, config jetstream.ConsumerConfig) (*jetstream.ConsumerInfo, error) {
	ctx, stop := b.asking(ctx, b.api("CONSUMER."))
	defer stop()
	consumer, err := s.js.CreateOrUpdateConsumer(ctx, b.opt.Stream, config)
	if err != nil {
		return nil, cause(ctx, err)
	}
	return consumer.CachedInfo(), nil
}

// verifyConsumer returns an error that names the setting, and the fix, if
// messages could be lost, forgotten or held up.
func verifyConsumer(c, want jetstream.ConsumerConfig) error {
	filters := c.FilterSubjects
	if c.FilterSubject != "" || len(filters) == 0 {
		filters = append(filters, c.FilterSubject)
	}
	for _, check := range []struct {
		bad       bool
		says, fix string
	}{
		{len(filters) != 1 || filters[0] != want.FilterSubject, fmt.Sprintf("filter_subject is %q", filters), want.FilterSubject},
		{c.AckPolicy != jetstream.AckExplicitPolicy, fmt.Sprintf("ack_policy is %v, which acks what was not handled", c.AckPolicy), "explicit"},
		{c.MaxDeliver > 0, fmt.Sprintf("max_deliver is %d, which parks messages silently", c.MaxDeliver), "-1"},
		{len(c.BackOff) > 0, "backoff is set, which takes the place of ack_wait", "none"},
		{c.DeliverPolicy != jetstream.DeliverAllPolicy, fmt.Sprintf("deliver_policy is %v, which skips messages", c.DeliverPolicy), "all"},
		{c.InactiveThreshold > 0, fmt.Sprintf("inactive_threshold is %v, after which the position is forgotten", c.InactiveThreshold), "none"},
		{c.MemoryStorage, "mem_storage is set, which forgets the position", "false"},
		{c.MaxAckPending > 0 && c.MaxAckPending < minAckPending, fmt.Sprintf("max_ack_pending is %d, so few messages are in flight", c.MaxAckPending), fmt.Sprintf("at least %d", minAckPending)},
		{c.AckWait < minAckWait, fmt.Sprintf("ack_wait is %v, so what is being worked on comes again", c.AckWait), "at least " + minAckWait.String()},
		{c.HeadersOnly, "headers_only is set, so messages come without their bodies", "false"},
		{c.DeliverSubject != "", "deliver_subject is set, so messages are pushed to it", "none"},
		{c.ReplayPolicy != jetstream.ReplayInstantPolicy, fmt.Sprintf("replay_policy is %v, which delays messages", c.ReplayPolicy), "instant"},
		{c.PriorityPolicy != jetstream.PriorityPolicyNone, "priority_policy is set", "none"},
		{c.MaxRequestBatch > 0 && c.MaxRequestBatch < pullMessages, fmt.Sprintf("max_batch is %d", c.MaxRequestBatch), fmt.Sprintf("at least %d", pullMessages)},
		{c.MaxRequestExpires > 0 && c.MaxRequestExpires < pullExpires, fmt.Sprintf("max_expires is %v", c.MaxRequestExpires), "at least " + pullExpires.String()},
		{c.MaxRequestMaxBytes > 0, fmt.Sprintf("max_bytes is %d, so a large message stops all others", c.MaxRequestMaxBytes), "none"},
		{c.MaxWaiting > 0 && c.MaxWaiting < minWaiting, fmt.Sprintf("max_waiting is %d", c.MaxWaiting), fmt.Sprintf("at least %d", minWaiting)},
	} {
		if check.bad {
			return fmt.Errorf("consumer %s: %s; set it to: %s", want.Durable, check.says, check.fix)
		}
	}
	return nil
}

// consumer makes the durable consumer, or finds it.
func (s *subscription) consumer(ctx context.Context, ses *session) error {
	created, err := s.broker.ensureConsumer(ctx, ses, s.durable, s.topic)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, natsgo.ErrConnectionClosed) {
			s.broker.ails(s, err)
		}
		return err
	}
	if s.renew(created) {
		s.forget() // what is on its way is of a consumer that is gone
	}
	if !s.silent {
		s.broker.ails(s, nil)
	}
	return nil
}
