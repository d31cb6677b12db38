package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	ackWait       = 30 * time.Second // after which a message that nobody keeps alive comes again
	maxAckPending = 4096             // messages in flight, of all instances of a role together
	stopTimeout   = time.Second      // longest wait for the end of what the server is sending
)

// subscribed takes messages until ctx is done, however often that breaks.
func (s *subscription) subscribed(ctx context.Context) {
	defer s.leave(ctx)
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
		if !pause.For(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// take makes the durable consumer, or finds it, and takes messages from it
// until ctx is done; then it returns nil. It returns an error as soon as
// something is odd: taking again mends whatever can be mended.
func (s *subscription) take(ctx context.Context, ses *session) error {
	connected, end := whileConnected(ctx, ses.conn)
	defer end()
	if !ses.connected() {
		return ErrNotConnected
	}
	if err := s.consumer(connected, ses); err != nil {
		return err
	}
	in, err := s.listen(ses.conn)
	if err != nil {
		return err
	}
	p := puller{
		conn: ses.conn, inbox: in.sub.Subject,
		subject: "$JS.API.CONSUMER.MSG.NEXT." + s.broker.opt.Stream + "." + s.durable,
	}
	err = s.pull(ctx, connected, &p, in.messages)
	if errors.Is(err, ErrNotConnected) || errors.Is(err, errSilent) {
		return err // and listen on
	}
	s.exhaust(ctx, &p, in.messages)
	s.leave(ctx)
	return err
}

// consumer makes the durable consumer unless it is there. Limits that were
// changed meanwhile are set again.
func (s *subscription) consumer(ctx context.Context, ses *session) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	consumer, err := ses.js.CreateOrUpdateConsumer(ctx, s.broker.opt.Stream, jetstream.ConsumerConfig{
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
	if s.renew(consumer.CachedInfo().Created) {
		s.forget() // what is on its way is of a consumer that is gone
	}
	return nil
}

// errSilent says that the server does not do what it was asked for.
var errSilent = errors.New("no heartbeat of the consumer")

// pull asks for messages and receives them, until ctx is done or something is
// odd.
func (s *subscription) pull(ctx, connected context.Context, p *puller, in <-chan *natsgo.Msg) error {
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	for {
		if err := p.ask(); err != nil {
			return err
		}
		select {
		case <-connected.Done():
			if ctx.Err() != nil {
				return nil
			}
			return ErrNotConnected
		case <-silence.C:
			return errSilent
		case m := <-in:
			if err := s.read(ctx, p, m); err != nil {
				return err
			}
			silence.Reset(2 * pullHeartbeat)
		}
	}
}

// read takes what came to the inbox: a message, or what the server has to say.
func (s *subscription) read(ctx context.Context, p *puller, m *natsgo.Msg) error {
	if !fromStream(m) {
		return p.told(m)
	}
	p.open = max(p.open-1, 0) // what was asked for before a reconnect comes too
	s.receive(ctx, p.conn, m)
	return nil
}

// exhaust receives what the server is still sending: all it was asked for, if
// it has that much. What is on the wire when the inbox goes away comes again
// after the ack wait only.
func (s *subscription) exhaust(ctx context.Context, p *puller, in <-chan *natsgo.Msg) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for p.open > 0 && p.conn.IsConnected() && p.conn.FlushWithContext(ending) == nil {
		if s.empty(ctx, p, in) == 0 {
			return
		}
	}
}

// empty receives what has come to the inbox, and returns how much it was.
func (s *subscription) empty(ctx context.Context, p *puller, in <-chan *natsgo.Msg) (n int) {
	for ; ; n++ {
		select {
		case m := <-in:
			_ = s.read(ctx, p, m) // nothing is asked for any more
		default:
			return n
		}
	}
}
