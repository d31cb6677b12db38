package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// stopTimeout is the longest wait for the end of what the server is sending.
const stopTimeout = time.Second

// consume receives messages until ctx is done, however often that fails.
func (s *subscription) consume(ctx context.Context) {
	defer s.broker.setSubscriptionError(s, nil)
	defer s.leave()
	for backoff := minBackoff; ; {
		ses, err := s.broker.keeper.Await(ctx)
		if err != nil {
			return
		}
		before := s.count()
		err = s.consumeFrom(ctx, ses)
		if ctx.Err() != nil {
			return
		}
		if s.count() > before {
			backoff = minBackoff
		}
		if s.silent = errors.Is(err, errSilent); s.silent {
			err = s.broker.suspect(err)
			s.broker.setSubscriptionError(s, fmt.Errorf("consumer %s: %w", s.durable, err))
		}
		s.broker.log.WarnContext(ctx, "subscription failed, will retry",
			"consumer", s.durable, "error", fmt.Errorf("consume %s: %w", s.topic, err), "retry_in", backoff)
		s.broker.keeper.Recheck()
		if !pause.For(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// consumeFrom makes the durable consumer, or finds it, and receives its messages
// until ctx is done; then it returns nil. It returns an error on anything
// unexpected: the next call starts over.
func (s *subscription) consumeFrom(ctx context.Context, ses *session) error {
	connected, end := ses.whileConnected(ctx)
	defer end()
	if connected.Err() != nil {
		return connection.ErrNotConnected
	}
	if err := s.consumer(connected, ses); err != nil {
		return err
	}
	in, err := s.listen(ses.conn)
	if err != nil {
		return err
	}
	p := puller{
		conn: ses.conn, inbox: in.sub.Subject, waiting: &s.waiting,
		subject: s.broker.api("CONSUMER.MSG.NEXT." + s.broker.opt.Stream + "." + s.durable),
	}
	err = s.pull(ctx, connected, &p, in.messages)
	if errors.Is(err, connection.ErrNotConnected) || errors.Is(err, errSilent) {
		return err // the inbox stays open: the server may still send what was asked for
	}
	s.exhaust(&p, in.messages)
	s.leave()
	return err
}

// consumer makes the durable consumer, or finds it.
func (s *subscription) consumer(ctx context.Context, ses *session) error {
	created, err := s.broker.ensureConsumer(ctx, ses, s.durable, s.topic)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, natsgo.ErrConnectionClosed) {
			s.broker.setSubscriptionError(s, err)
		}
		return err
	}
	known, err := s.broker.knownStream(ctx, ses)
	if err != nil {
		return err
	}
	if s.renew(created, known) {
		s.closeInbox() // what the server sends there is of a consumer that is gone
	}
	if !s.silent {
		s.broker.setSubscriptionError(s, nil)
	}
	return nil
}

// errEdited says that the settings of the consumer were changed.
var errEdited = errors.New("the settings of the consumer were changed")

// errSilent says that the server does not do what it was asked for.
var errSilent = errors.New("no heartbeat of the consumer")

// pull asks for messages and receives them, until ctx is done or something
// unexpected happens.
func (s *subscription) pull(ctx, connected context.Context, p *puller, in <-chan *natsgo.Msg) error {
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	for {
		idle := p.open == 0
		if err := p.ask(s.capacity()); err != nil {
			return err
		}
		if idle {
			silence.Reset(2 * pullHeartbeat)
		}
		select {
		case <-connected.Done():
			if ctx.Err() != nil {
				return nil
			}
			return connection.ErrNotConnected
		case <-silence.C:
			if p.open > 0 && len(in) == 0 { // else the window was full meanwhile
				return errSilent
			}
		case <-s.unfit:
			return errEdited
		case <-s.freed:
		case b := <-s.barrier:
			if err := s.pass(p, b, in); err != nil {
				return err
			}
		case m := <-in:
			if err := s.read(p, m); err != nil {
				return err
			}
			silence.Reset(2 * pullHeartbeat)
		}
	}
}

// read reads what came to the inbox: a message, or a status of the server.
func (s *subscription) read(p *puller, m *natsgo.Msg) error {
	if s.silent {
		s.silent = false
		s.broker.setSubscriptionError(s, nil)
	}
	if !fromStream(m) {
		return p.status(m)
	}
	p.came(1) // what was asked for before a reconnect comes too
	if d, err := s.newDelivery(p.conn, m); err == nil {
		s.receive(d)
	}
	return nil
}

// exhaust receives what the server is still sending: all it was asked for, if
// it has that much. What is on the wire when the inbox is closed comes again
// after the ack wait only.
func (s *subscription) exhaust(p *puller, in <-chan *natsgo.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for p.open > 0 && p.conn.IsConnected() && p.conn.FlushWithContext(ctx) == nil {
		if s.empty(p, in) == 0 {
			return
		}
	}
}

// empty receives what has come to the inbox, and returns how much it was.
func (s *subscription) empty(p *puller, in <-chan *natsgo.Msg) (n int) {
	for ; ; n++ {
		select {
		case m := <-in:
			_ = s.read(p, m) // nothing is asked for any more
		default:
			return n
		}
	}
}
