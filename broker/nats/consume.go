package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// stopTimeout is the longest wait for the end of what the server is sending.
const stopTimeout = time.Second

// consume receives messages until ctx is done, and starts over after each failure.
func (s *subscription) consume(ctx context.Context) {
	defer s.broker.setSubscriptionError(s, nil)
	for failures := 1; ; failures++ {
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
			failures = 1
		}
		if s.silent = errors.Is(err, errSilent); s.silent {
			err = s.broker.suspect(err)
			s.broker.setSubscriptionError(s, fmt.Errorf("consumer %s: %w", s.durable, err))
		}
		wait := retry.Verify.After(failures)
		s.broker.log.WarnContext(ctx, "subscription failed, will retry",
			"consumer", s.durable, "error", fmt.Errorf("consume %s: %w", s.topic, err), "retry_in", wait)
		s.broker.keeper.Recheck()
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// consumeFrom makes or finds the durable consumer, and receives its messages until ctx is
// done; then it returns nil. It returns an error on anything unexpected, and the next
// call starts over.
func (s *subscription) consumeFrom(ctx context.Context, ses *session) error {
	connected, end := ses.whileConnected(ctx)
	defer end()
	if connected.Err() != nil {
		return connection.ErrNotConnected
	}
	if err := s.consumer(connected, ses); err != nil {
		return err
	}
	in := make(chan *natsgo.Msg, 2*maxHeld) // it holds all messages that were asked for, and statuses
	inbox, err := ses.conn.ChanSubscribe(ses.conn.NewInbox(), in)
	if err != nil {
		return err
	}
	p := puller{
		conn: ses.conn, inbox: inbox.Subject, waiting: &s.waiting,
		subject: s.broker.api("CONSUMER.MSG.NEXT." + s.broker.opt.Stream + "." + s.durable),
	}
	err = s.pull(ctx, connected, &p, in)
	s.exhaust(&p, in)
	leave(ses.conn, inbox)
	s.empty(&p, in)
	return err
}

// leave closes an inbox when everything that the server was sending has arrived. If the
// inbox were closed on this side first, those messages would be thrown away, and be
// redelivered only after the ack wait.
//
// A client that reconnects holds its lock until a server has answered (nats.go v1.55.0).
// So a goroutine makes the calls, and leave returns within the time that a stop may take.
func leave(conn *natsgo.Conn, inbox *natsgo.Subscription) {
	ending, cancel := context.WithTimeout(context.Background(), stopTimeout)
	go func() {
		defer cancel()
		// In process hardly anything is on its way. That connection is not drained, since
		// draining takes a timer that may be of another synctest bubble (nats.go v1.55.0).
		// Drain and Unsubscribe fail only if the connection is closed.
		if conn.Opts.InProcessServer == nil && inbox.Drain() == nil {
			_ = conn.FlushWithContext(ending) // if it fails, messages on the wire are redelivered
		}
		_ = inbox.Unsubscribe()
	}()
	<-ending.Done()
}

// consumer makes or finds the durable consumer.
func (s *subscription) consumer(ctx context.Context, ses *session) error {
	created, err := s.broker.ensureConsumer(ctx, ses, s.durable, s.topic)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, natsgo.ErrConnectionClosed) {
			s.broker.setSubscriptionError(s, err)
		}
		return err
	}
	progress, err := s.broker.streamProgress(ctx, ses)
	if err != nil {
		return err
	}
	s.renew(created, progress)
	if !s.silent {
		s.broker.setSubscriptionError(s, nil)
	}
	return nil
}

// errEdited says that the settings of the consumer were changed.
var errEdited = errors.New("the settings of the consumer were changed")

// errSilent says that the server does not send the heartbeats that it was asked for.
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
			if p.open > 0 && len(in) == 0 { // else nothing was asked for, since the window was full
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

// read handles one arrival at the inbox: a message, or a status of the server.
func (s *subscription) read(p *puller, m *natsgo.Msg) error {
	if s.silent {
		s.silent = false
		s.broker.setSubscriptionError(s, nil)
	}
	if !fromStream(m) {
		return p.status(m)
	}
	p.came(1) // it also counts messages that were asked for before a reconnect
	if d, err := s.newDelivery(m); err == nil {
		s.receive(d)
	}
	return nil
}

// exhaust receives the messages that the server is still sending, at most as many as it
// was asked for. Messages on the wire when the inbox is closed are redelivered only after
// the ack wait.
func (s *subscription) exhaust(p *puller, in <-chan *natsgo.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for p.open > 0 && p.conn.IsConnected() && p.conn.FlushWithContext(ctx) == nil {
		if s.empty(p, in) == 0 {
			return
		}
	}
}

// empty receives all arrivals that wait in the inbox, and returns their number.
func (s *subscription) empty(p *puller, in <-chan *natsgo.Msg) (n int) {
	for ; ; n++ {
		select {
		case m := <-in:
			_ = s.read(p, m) // an error has no effect, since nothing more is asked for
		default:
			return n
		}
	}
}
