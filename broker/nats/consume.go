package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	ackWait       = 30 * time.Second // after which a message that nobody keeps alive comes again
	maxAckPending = 8192             // messages in flight, of all instances of a role together
	pullMessages  = 512              // messages asked for at once
	pullBytes     = 8 << 20          // bytes asked for at once, unless one message may be larger
	pullHeartbeat = 5 * time.Second  // how often the server tells that it is there
	drainTimeout  = time.Second      // longest wait for what the client has buffered
)

// take makes the durable consumer, or finds it, and takes messages from it
// until ctx is done; then it returns nil. It returns an error as soon as
// something is wrong with the consumer; taking again mends whatever can be
// mended.
func (s *subscription) take(ctx context.Context, ses *session) error {
	setup, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	consumer, err := ses.js.CreateOrUpdateConsumer(setup, s.broker.opt.Stream, jetstream.ConsumerConfig{
		Durable:       s.durable,
		FilterSubject: s.topic,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1, // a limit would park messages silently
		MaxAckPending: maxAckPending,
	})
	if err != nil {
		return err
	}
	s.renew(consumer.CachedInfo().Created)

	failed := make(chan error, 1)
	pull, err := consumer.Consume(
		func(in jetstream.Msg) { s.receive(ctx, in) },
		// A message larger than the limit would stall the consumer for good.
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, max(pullBytes, int(ses.conn.MaxPayload())+64<<10)),
		jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case failed <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	closed := pull.Closed()
	select {
	case <-ctx.Done():
		pull.Drain() // what the client has buffered goes back to the server
		await(closed, drainTimeout)
		return nil
	case err := <-failed:
		pull.Stop()
		await(closed, drainTimeout)
		return err
	case <-closed:
	}
	select {
	case err := <-failed:
		return err
	default:
		return errors.New("the subscription was closed")
	}
}

// await waits until done is closed, or for d.
func await(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// subscribed takes messages until ctx is done, however often that breaks.
func (s *subscription) subscribed(ctx context.Context) {
	for backoff := minBackoff; ; {
		ses := s.broker.usable(ctx.Done())
		if ses == nil {
			return
		}
		before := s.taken()
		err := s.take(ctx, ses)
		if ctx.Err() != nil {
			return
		}
		if s.taken() > before {
			backoff = minBackoff
		}
		s.broker.log.WarnContext(ctx, "subscription broke, will retry",
			"consumer", s.durable, "error", fmt.Errorf("take from %s: %w", s.topic, err), "retry_in", backoff)
		s.broker.check()
		if !pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}
