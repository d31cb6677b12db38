package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// stopTimeout is the longest wait for the end of what the server is sending.
const stopTimeout = time.Second

// subscribed takes messages until ctx is done, however often that breaks.
func (s *subscription) subscribed(ctx context.Context) {
	defer s.broker.ails(s, nil)
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
		if s.silent = errors.Is(err, errSilent); s.silent {
			err = s.broker.suspect(err)
			s.broker.ails(s, fmt.Errorf("consumer %s: %w", s.durable, err))
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
		subject: s.broker.api("CONSUMER.MSG.NEXT." + s.broker.opt.Stream + "." + s.durable),
	}
	err = s.pull(ctx, connected, &p, in.messages)
	if errors.Is(err, ErrNotConnected) || errors.Is(err, errSilent) {
		return err // and listen on
	}
	s.exhaust(ctx, &p, in.messages)
	s.leave(ctx)
	return err
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
	if s.silent {
		s.silent = false
		s.broker.ails(s, nil)
	}
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
