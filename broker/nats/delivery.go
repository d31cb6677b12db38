package nats

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// A position identifies a message. The time distinguishes messages of a stream that was
// deleted and made again, where sequences begin anew.
type position struct {
	sequence uint64
	stored   int64 // Unix nanoseconds
}

// A delivery is a message that was received and is not settled. The window has it in
// flight, see [inflight.Delivery].
type delivery struct {
	position
	to       *subscription
	in       *natsgo.Msg
	bytes    int
	number   int       // how often the message was delivered, from 1
	order    uint64    // number among all deliveries of the consumer
	consumer time.Time // when the consumer that delivered it was created
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
		order:    meta.Sequence.Consumer,
	}, nil
}

// headerBytes is about how much memory a header takes beside its text. A message may have
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
func (d *delivery) Stale() bool { return d.to.stale(d) }

// Ack acks the message at the server. If the ack is lost, the message is redelivered.
func (d *delivery) Ack() {
	if !d.Stale() {
		d.to.sent(d.send("+ACK"))
		failpoint.Here("acked")
	}
	d.to.drop(d)
}

// Retry has the server deliver the message again after a delay.
func (d *delivery) Retry(delay time.Duration) bool {
	if !d.Stale() {
		d.to.sent(d.nak(delay))
	}
	d.to.drop(d)
	return true
}

// Return has the subscription nak the message when it has ended.
func (d *delivery) Return() {
	d.to.drop(d)
	d.to.returned = append(d.to.returned, d)
}

// nak has the server deliver the message again after a delay, which may be 0.
func (d *delivery) nak(delay time.Duration) error {
	if delay <= 0 {
		return d.send("-NAK")
	}
	return d.send(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// send answers the server, perhaps on another connection than the message came on.
func (d *delivery) send(answer string) error {
	s, err := d.to.broker.current()
	if err != nil {
		return err
	}
	return s.conn.Publish(d.in.Reply, []byte(answer))
}
