package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	ackWait       = 5 * time.Second // after which a message comes again, unless the server is notified that it is in progress
	minAckPending = 256             // fewer, and messages that wait for a retry hold up others
	minWaiting    = 16              // instances that may ask for messages at the same time

	followInterval = time.Second // between two looks at a consumer that is used
	verifyEvery    = 10          // how many of them there are between two looks at one that is idle
)

// errMissing says that something is missing that only an administrator makes.
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
		MaxAckPending: -1, // those that wait for a retry count, too
	}
}

// ensureConsumer finds the durable consumer, makes it if it is absent, and sets again
// what was changed, unless only an administrator may. It returns when the consumer was
// created.
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

// follow looks at the consumer until ctx is done: up to where the role has acked its
// commands, soon after that may have changed, and now and then whether someone has
// changed its settings, which the server does not tell who uses it. Then the consumer is
// found again. One that is paused is left so.
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
			continue // the next message, or the next time, has it asked again
		}
		s.mu.Lock()
		if s.role != "" && info.Created.Equal(s.created) {
			s.known.settle(s.role, info.AckFloor.Stream)
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

// lookUpConsumer asks for a consumer. The client library refuses to return one
// that pushes.
func (b *Broker) lookUpConsumer(ctx context.Context, s *session, durable string) (*jetstream.ConsumerInfo, error) {
	var info jetstream.ConsumerInfo
	err := b.ask(ctx, s, "CONSUMER.INFO."+b.opt.Stream+"."+durable, struct{}{}, &info)
	return &info, err
}

// makeConsumer makes a consumer, or changes the one there is.
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
