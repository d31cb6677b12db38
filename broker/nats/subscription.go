package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	heartbeat    = ackWait / 3      // how often the server is notified that messages are in progress
	maxHeld      = 2048             // messages received and not settled, including messages that wait for their retry
	maxHeldBytes = 64 << 20         // about how many bytes these may take
	settleWait   = 30 * time.Second // longest wait after Close for handlers to settle their messages
)

// A subscription is one call of Subscribe. It asks the consumer for messages
// (consume.go), holds each until it is settled, and gives it to the window, which
// gives it to the handler.
type subscription struct {
	broker  *Broker
	topic   string
	durable string
	window  *inflight.Window
	unfit   chan struct{} // signals that someone has changed the consumer

	// Only the receiving goroutine uses it.
	failed int // failures in a row since something was received

	mu      sync.Mutex
	held    map[position]*delivery
	bytes   int           // bytes of the held messages
	freed   chan struct{} // signals that a message was settled
	created time.Time     // when the consumer was created; zero before it was found

	ended    bool        // nothing more is received
	returned []*delivery // to give back when it has ended; earlier, the server would send them here again
}

// run delivers messages until ctx is done. Then it closes the window, and waits for
// messages in flight until the broker ends, or for a while after the subscriber was
// closed.
func (s *subscription) run(ctx context.Context) {
	defer s.broker.setOpen(s, false)
	defer s.broker.failures.Set(s, nil) // a part may have noted one after the intake has ended
	var parts sync.WaitGroup
	defer parts.Wait()
	settling, finish := context.WithCancel(context.WithoutCancel(ctx))
	defer finish()
	parts.Go(func() { s.keepAlive(settling) })
	parts.Go(func() { s.follow(ctx) })

	s.consume(ctx)
	s.window.Close()
	s.giveBack()
	s.window.Drain(settleWait, 0, nil)
}

// giveBack gives the messages that the window has returned back to the server, and from now on
// each as soon as the window returns it.
func (s *subscription) giveBack() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	for _, d := range s.returned { // no other is added any more
		s.sent(d.send("-NAK"))
	}
}

// setOpen notes that a subscription has begun or has ended.
func (b *Broker) setOpen(s *subscription, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[s] = open; !open {
		delete(b.open, s)
	}
}

// consuming returns a subscription to the commands that has found its consumer, or nil.
func (b *Broker) consuming() *subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if s.topic == b.opt.Routing.Subscription() && s.begun() {
			return s
		}
	}
	return nil
}

// begun reports whether the consumer was found.
func (s *subscription) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.created.IsZero()
}

// keepAlive notifies the server that messages are in progress, until ctx is done.
func (s *subscription) keepAlive(ctx context.Context) {
	for pause.For(ctx, heartbeat) {
		s.mu.Lock()
		held := slices.Collect(maps.Values(s.held))
		s.mu.Unlock()
		for _, d := range held {
			_ = d.send("+WPI") // if it can't be sent the message is redelivered
		}
	}
}

// receive holds a message and adds it to the window. If the message is held already, the
// server has redelivered it since no notice or ack came in time. Then the held delivery
// settles it.
func (s *subscription) receive(d *delivery) {
	s.mu.Lock()
	if _, ok := s.held[d.position]; ok {
		s.mu.Unlock()
		return
	}
	s.held[d.position] = d
	s.bytes += d.bytes
	s.mu.Unlock()
	failpoint.Here("fetched")
	if !s.window.Add(d, d.number) {
		s.drop(d)
	}
}

// drop forgets a message that is settled, or that will be redelivered.
func (s *subscription) drop(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[d.position] != d {
		return
	}
	delete(s.held, d.position)
	s.bytes -= d.bytes
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// capacity returns how many more messages may be held.
func (s *subscription) capacity() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes >= maxHeldBytes {
		return 0
	}
	return max(0, maxHeld-len(s.held))
}

// renew notes when the current consumer was created. It forgets the messages of another one:
// an ack of theirs would go to the consumer that has its name now, and could ack another
// message there.
func (s *subscription) renew(created time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !created.Equal(s.created) {
		clear(s.held)
		s.bytes = 0
	}
	s.created = created
}

// sent logs that an ack could not be sent, so that its message is redelivered.
func (s *subscription) sent(err error) {
	if err != nil {
		s.broker.errors.Note(1, []any{"consumer", s.durable, "error", fmt.Errorf("acks are not sent, and messages come again: %w", err)})
	}
}

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
	window, err := s.Open(ctx, inflight.Options{Messages: maxHeld, Bytes: maxHeldBytes, Later: later})
	if err != nil {
		return nil, err
	}
	sub := &subscription{
		broker: s.broker, topic: topic, durable: ConsumerName(s.role, topic), window: window,
		unfit: make(chan struct{}, 1),
		held:  make(map[position]*delivery),
		freed: make(chan struct{}, 1),
	}
	s.broker.setOpen(sub, true)
	window.Run(sub.run)
	return window.Messages(), nil
}

// ConsumerName returns the name of the durable consumer of a role and a topic. It is stable,
// since the position of the role is kept under it.
func ConsumerName(role, topic string) string {
	name := strings.NewReplacer(".", "-", "*", "any", ">", "all").Replace(topic)
	clean := broker.CleanName(role) + "_" + broker.CleanName(name)
	if clean == role+"_"+name && !strings.Contains(role, "_") && !strings.ContainsAny(topic, "_-*>") && len(clean) <= maxDurable {
		return clean
	}
	sum := sha256.Sum256([]byte(role + "\n" + topic)) // without it two topics could share a position
	return clean[:min(len(clean), maxDurable)] + "-" + hex.EncodeToString(sum[:4])
}

// A position identifies a message. The time distinguishes messages of a server that came back
// with an older state, where sequences are given anew.
type position struct {
	sequence uint64
	stored   int64 // Unix nanoseconds
}

// A delivery is a message that was received and is not settled. The window has it in
// flight, see [inflight.Delivery].
type delivery struct {
	position
	to     *subscription
	in     *natsgo.Msg
	bytes  int
	number int // how often the message was delivered, from 1
}

// newDelivery returns the delivery of a message. It returns an error if in is not a
// message of a stream.
func (s *subscription) newDelivery(in *natsgo.Msg) (*delivery, error) {
	meta, err := in.Metadata()
	if err != nil {
		return nil, err
	}
	return &delivery{
		position: position{meta.Sequence.Stream, meta.Timestamp.UnixNano()},
		to:       s,
		in:       in,
		bytes:    weight(in),
		number:   int(min(meta.NumDelivered, 1<<30)),
	}, nil
}

// headerBytes is about how much memory a header takes in addition to its text. A message may have
// a hundred thousand short headers.
const headerBytes = 128

// weight returns about how many bytes of memory a message takes.
func weight(in *natsgo.Msg) int { return in.Size() + headerBytes*len(in.Header) }

// Bytes returns about how much memory the message takes.
func (d *delivery) Bytes() int { return d.bytes }

// Message returns the message as handlers read it.
func (d *delivery) Message() *message.Message {
	msg := unmarshal(d.in.Subject, d.in.Header, d.in.Data)
	msg.Metadata[broker.MetaPosition] = strconv.FormatUint(d.sequence, 10)
	return msg
}

// Stale reports whether the consumer that the message came from was deleted.
func (d *delivery) Stale() bool {
	d.to.mu.Lock()
	defer d.to.mu.Unlock()
	return d.to.held[d.position] != d
}

// Ack acks the message at the server. If the ack is lost, the message is redelivered.
func (d *delivery) Ack() {
	if !d.Stale() {
		d.to.sent(d.send("+ACK"))
		failpoint.Here("acked")
	}
	d.to.drop(d)
}

// Return has the server deliver the message to another subscription when this one has ended.
func (d *delivery) Return() {
	d.to.drop(d)
	d.to.mu.Lock()
	ended := d.to.ended
	if !ended {
		d.to.returned = append(d.to.returned, d)
	}
	d.to.mu.Unlock()
	if ended {
		d.to.sent(d.send("-NAK"))
	}
}

// later has the server deliver a message again after a delay.
func later(in inflight.Delivery, after time.Duration) {
	if d := in.(*delivery); !d.Stale() {
		d.to.sent(d.send(fmt.Sprintf(`-NAK {"delay": %d}`, max(after, 0).Nanoseconds())))
		d.to.drop(d)
	}
}

// send answers the server, perhaps on another connection than the message came on.
func (d *delivery) send(answer string) error {
	s, err := d.to.broker.current()
	if err != nil {
		return err
	}
	return s.conn.Publish(d.in.Reply, []byte(answer))
}
