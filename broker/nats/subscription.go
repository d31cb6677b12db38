package nats

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

const (
	heartbeat = 10 * time.Second // how often the server is told of every message that it is being worked on
	maxHeld   = 64 << 20         // bytes of messages in flight; the rest waits at the server
)

// A subscription is one call of Subscribe.
type subscription struct {
	broker  *Broker
	topic   string
	durable string
	closing <-chan struct{}           // closed with the subscriber
	taker   func(envelope.Offer) bool // offered each message first; nil if nobody is
	ctx     context.Context           // ends with the intake
	over    chan struct{}             // closed when messages in flight are given up
	inbox   *inbox                    // nil while it is closed; of whoever takes messages
	silent  bool                      // the server did not do what it was asked for; of whoever takes messages

	gate   sync.RWMutex // held for reading by whoever takes or sends
	closed bool         // no more is taken or sent
	out    chan *message.Message
	lanes  broker.Lanes
	offers sync.WaitGroup // taken, and neither acked nor passed on

	mu     sync.Mutex
	held   map[position]*delivery
	bytes  int           // of those held
	room   chan struct{} // holds one: bytes became fewer
	count  int           // messages taken so far
	since  time.Time     // when the consumer was created
	unsent int           // acks that could not be sent
	why    error         // of the last of them
}

// run takes messages until ctx is done, the subscriber is closed or the broker
// is over. Then it closes out, calls left, and waits for the messages in flight.
func (s *subscription) run(ctx context.Context, left func()) {
	ctx, stop := s.broker.term.Until(ctx, s.closing)
	defer stop()
	s.ctx = ctx
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(s.keepAlive)
	s.subscribed(ctx)

	s.gate.Lock()
	s.closed = true
	close(s.out)
	s.gate.Unlock()
	left()
	s.giveBack()

	idle := make(chan struct{})
	parts.Go(func() {
		s.offers.Wait() // they may be passed on
		s.lanes.Wait()
		close(idle)
	})
	select {
	case <-idle:
	case <-s.broker.term.Over():
	case <-s.closing:
		t := time.NewTimer(ackWait) // then the server gives them to others
		defer t.Stop()
		select {
		case <-idle:
		case <-s.broker.term.Over():
		case <-t.C:
		}
	}
	close(s.over)
}

// receive offers a message, or puts it into the lane of its key. It blocks while
// the messages in flight are too large.
func (s *subscription) receive(ctx context.Context, conn *natsgo.Conn, in *natsgo.Msg) {
	d, err := s.newDelivery(conn, in)
	if err != nil {
		return // something else was sent to our inbox
	}
	s.gate.RLock()
	switch {
	case s.closed:
		s.told(d.nak(0))
	case s.hold(d) && ctx.Err() == nil: // else giveBack finds it
		failpoint.Here("fetched")
		if !s.offer(d) {
			s.line(d)
		}
	}
	s.gate.RUnlock()
	for s.full() {
		select {
		case <-s.room:
		case <-ctx.Done():
			return
		}
	}
}

// offer reports whether somebody took the message before it was one.
func (s *subscription) offer(d *delivery) bool {
	if s.taker == nil {
		return false
	}
	s.offers.Add(1)
	s.mark(d, true)
	if s.taker(d) {
		return true
	}
	s.offers.Done()
	return false
}

// line puts a message into the lane of its key. The gate must be held.
func (s *subscription) line(d *delivery) {
	s.mark(d, false)
	msg := d.message()
	s.lanes.Go(broker.Key(msg), func() { s.deliver(s.ctx, d, msg) })
}

// deliver hands a message to whoever reads out, and returns when the next one of
// its key may follow. If nobody reads any more, giveBack does.
func (s *subscription) deliver(ctx context.Context, d *delivery, msg *message.Message) {
	f := inflight.NewContext(ctx)
	msg.SetContext(envelope.WithPlace(f, f.Leave))
	if !s.send(ctx, d, msg) {
		f.End()
		return
	}
	finish := func() {
		s.settle(d, msg)
		s.drop(d)
		f.End()
	}
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
	case <-s.over:
	case <-f.Left():
		s.lanes.Go("", func() {
			select {
			case <-msg.Acked():
			case <-msg.Nacked():
			case <-s.over:
			}
			finish()
		})
		return
	}
	finish()
}

// settle tells the server what became of a message, if anything did.
func (s *subscription) settle(d *delivery, msg *message.Message) {
	if !s.current(d) {
		return
	}
	select {
	case <-msg.Acked():
		s.told(d.ack())
		failpoint.Here("acked")
	case <-msg.Nacked():
		s.told(d.nak(broker.RedeliveryDelay(d.number)))
	default: // it was given up
	}
}

// send reports whether somebody took the message before ctx was done.
func (s *subscription) send(ctx context.Context, d *delivery, msg *message.Message) bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed || ctx.Err() != nil {
		return false
	}
	select {
	case s.out <- msg:
	case <-ctx.Done():
		return false
	}
	s.mark(d, true)
	return true
}

// giveBack returns what nobody took to the server, for others. Before the intake
// has ended the server would send it here again.
func (s *subscription) giveBack() {
	for _, d := range s.all() {
		if !d.sent {
			s.told(d.nak(0))
		}
	}
}

// keepAlive tells the server that messages in flight are being worked on, until
// they are given up.
func (s *subscription) keepAlive() {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-s.over:
			s.tell()
			return
		case <-t.C:
		}
		s.tell()
		select {
		case <-s.closing: // by now another instance should get them
			continue
		default:
		}
		for _, d := range s.all() {
			_ = d.working() // if not, it comes again
		}
	}
}
