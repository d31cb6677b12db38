package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ackWait is how long the server waits for an ack, or for a notice that the message is
	// in progress, before it redelivers a message.
	ackWait       = 5 * time.Second
	minAckPending = 256 // with a lower limit, messages that wait for a retry hold up others
	minWaiting    = 16  // instances that may ask for messages at the same time

	followInterval = time.Second // between two polls of a consumer that is in use
	verifyEvery    = 10          // intervals between two polls of an idle consumer
)

// errMissing says that an object is missing that only an administrator makes.
var errMissing = errors.New("it is missing; an administrator makes it with: timer-service provision")

// consumerConfig returns the configuration of the durable consumer of a role and a topic.
func consumerConfig(durable, topic string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		FilterSubject: topic,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1, // a limit would park messages silently
		MaxAckPending: -1, // messages that wait for a retry count against it, too
	}
}

// ensureConsumer finds the durable consumer, makes it if it is absent, and resets
// settings that were changed, unless only an administrator may. It returns when the
// consumer was created.
func (b *Broker) ensureConsumer(ctx context.Context, s *session, durable, topic string) (time.Time, error) {
	want := consumerConfig(durable, topic)
	info, err := b.lookUpConsumer(ctx, s, durable)
	unfit := error(nil)
	switch {
	case err == nil:
		if unfit = verifyConsumer(info.Config, want); unfit == nil || b.opt.Verify {
			return info.Created, unfit
		}
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return time.Time{}, fmt.Errorf("consumer %s: %w", durable, err)
	case b.opt.Verify:
		return time.Time{}, fmt.Errorf("consumer %s of stream %s: %w", durable, b.opt.Stream, errMissing)
	}
	made, err := b.makeConsumer(ctx, s, want)
	switch {
	case err == nil:
		return made.Created, verifyConsumer(made.Config, want) // some settings can't be changed
	case unfit != nil:
		return time.Time{}, fmt.Errorf("%w (consumer %s: %w)", unfit, durable, err)
	}
	return time.Time{}, fmt.Errorf("consumer %s: %w", durable, err)
}

// follow polls the consumer until ctx is done. Soon after messages came or were settled,
// it asks up to where the role has acked its commands. Now and then it verifies that
// nobody has changed the consumer's settings, since the server does not notify its users
// of that; if they were changed, the consumer is looked up and set again. A paused
// consumer stays paused.
func (s *subscription) follow(ctx context.Context) {
	t := time.NewTicker(followInterval)
	defer t.Stop()
	paused := false
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		session, err := s.broker.current()
		if err != nil || !s.begun() || (s.role == "" || !s.hasNews()) && n%verifyEvery > 0 {
			continue
		}
		info, err := s.broker.lookUpConsumer(ctx, session, s.durable)
		if err != nil {
			continue // a later poll asks again
		}
		s.mu.Lock()
		if s.role != "" && info.Created.Equal(s.created) {
			s.progress.settle(s.role, info.AckFloor.Stream)
		}
		s.mu.Unlock()
		if info.Paused {
			s.broker.setSubscriptionError(s, fmt.Errorf("consumer %s: someone has paused it; resume it with: nats consumer resume %s %s",
				s.durable, s.broker.opt.Stream, s.durable))
		} else if paused {
			s.broker.setSubscriptionError(s, nil)
		}
		if paused = info.Paused; verifyConsumer(info.Config, consumerConfig(s.durable, s.topic)) == nil {
			continue
		}
		select {
		case s.unfit <- struct{}{}:
		default:
		}
	}
}

// lookUpConsumer asks for a consumer. The client library refuses to return a push
// consumer.
func (b *Broker) lookUpConsumer(ctx context.Context, s *session, durable string) (*jetstream.ConsumerInfo, error) {
	var info jetstream.ConsumerInfo
	err := b.ask(ctx, s, "CONSUMER.INFO."+b.opt.Stream+"."+durable, struct{}{}, &info)
	return &info, err
}

// makeConsumer makes a consumer, or changes the existing one.
func (b *Broker) makeConsumer(ctx context.Context, s *session, config jetstream.ConsumerConfig) (*jetstream.ConsumerInfo, error) {
	ctx, stop := b.requesting(ctx, b.api("CONSUMER."))
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
		text, fix string
	}{
		{len(filters) != 1 || filters[0] != want.FilterSubject, fmt.Sprintf("filter_subject is %q", filters), want.FilterSubject},
		{c.AckPolicy != jetstream.AckExplicitPolicy, fmt.Sprintf("ack_policy is %v, which acks what was not handled", c.AckPolicy), "explicit"},
		{c.MaxDeliver > 0, fmt.Sprintf("max_deliver is %d, which parks messages silently", c.MaxDeliver), "-1"},
		{len(c.BackOff) > 0, "backoff is set, which replaces ack_wait", "none"},
		{c.DeliverPolicy != jetstream.DeliverAllPolicy, fmt.Sprintf("deliver_policy is %v, which skips messages", c.DeliverPolicy), "all"},
		{c.InactiveThreshold > 0, fmt.Sprintf("inactive_threshold is %v, after which the position is lost", c.InactiveThreshold), "none"},
		{c.MemoryStorage, "mem_storage is set, which loses the position", "false"},
		{c.MaxAckPending > 0 && c.MaxAckPending < minAckPending, fmt.Sprintf("max_ack_pending is %d, so messages that wait for a retry hold up others", c.MaxAckPending), fmt.Sprintf("at least %d", minAckPending)},
		{c.AckWait < ackWait, fmt.Sprintf("ack_wait is %v, so messages in flight are redelivered", c.AckWait), "at least " + ackWait.String()},
		{c.HeadersOnly, "headers_only is set, so messages come without their bodies", "false"},
		{c.DeliverSubject != "", "deliver_subject is set, so messages are pushed to it", "none"},
		{c.ReplayPolicy != jetstream.ReplayInstantPolicy, fmt.Sprintf("replay_policy is %v, which delays messages", c.ReplayPolicy), "instant"},
		{c.PriorityPolicy != jetstream.PriorityPolicyNone, "priority_policy is set", "none"},
		{c.MaxRequestBatch > 0 && c.MaxRequestBatch < maxHeld, fmt.Sprintf("max_batch is %d", c.MaxRequestBatch), fmt.Sprintf("at least %d", maxHeld)},
		{c.MaxRequestExpires > 0 && c.MaxRequestExpires < pullExpires, fmt.Sprintf("max_expires is %v", c.MaxRequestExpires), "at least " + pullExpires.String()},
		{c.MaxRequestMaxBytes > 0, fmt.Sprintf("max_bytes is %d, so a large message stops all others", c.MaxRequestMaxBytes), "none"},
		{c.MaxWaiting > 0 && c.MaxWaiting < minWaiting, fmt.Sprintf("max_waiting is %d", c.MaxWaiting), fmt.Sprintf("at least %d", minWaiting)},
	} {
		if check.bad {
			return fmt.Errorf("consumer %s: %s; set it to: %s", want.Durable, check.text, check.fix)
		}
	}
	return nil
}
