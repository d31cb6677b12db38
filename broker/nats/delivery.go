package nats

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// A position tells messages apart, also those of a stream that was deleted and
// made again, where sequences begin anew.
type position struct {
	sequence uint64
	stored   int64 // Unix nanoseconds
}

// A delivery is a message in flight: taken from the server, and neither acked
// nor nacked. It is an [envelope.Offer].
type delivery struct {
	position
	to       *subscription
	conn     *natsgo.Conn // the one it came on
	in       *natsgo.Msg
	bytes    int
	number   int       // how often it was delivered, from 1
	consumer time.Time // when the consumer it came from was created
	sent     bool      // handed to the handler
}

// newDelivery returns what came on a connection. It returns an error if that is
// no message of a stream.
func (s *subscription) newDelivery(conn *natsgo.Conn, in *natsgo.Msg) (*delivery, error) {
	meta, err := in.Metadata()
	if err != nil {
		return nil, err
	}
	return &delivery{
		position: position{meta.Sequence.Stream, meta.Timestamp.UnixNano()},
		to:       s,
		conn:     conn,
		in:       in,
		bytes:    weight(in),
		number:   int(min(meta.NumDelivered, 1<<30)),
	}, nil
}

// headerBytes is about what a header takes in memory beside its text, where a
// message may have a hundred thousand of three letters each.
const headerBytes = 128

// weight returns about how many bytes of memory a message takes, whatever is
// large in it.
func weight(in *natsgo.Msg) int { return in.Size() + headerBytes*len(in.Header) }

// message returns the message as handlers read it.
func (d *delivery) message() *message.Message {
	msg := unmarshal(d.in.Subject, d.in.Header, d.in.Data)
	msg.Metadata[broker.MetaPosition] = strconv.FormatUint(d.sequence, 10)
	msg.Metadata[broker.MetaDelivery] = strconv.Itoa(d.number)
	return msg
}

// Topic returns the subject that the message came on.
func (d *delivery) Topic() string { return d.in.Subject }

// Header returns the value of a header, or "".
func (d *delivery) Header(name string) string {
	if reserved(name) {
		return ""
	}
	return d.in.Header.Get(name)
}

// Body returns the body.
func (d *delivery) Body() []byte { return d.in.Data }

// Deliveries returns how often the message was delivered.
func (d *delivery) Deliveries() int { return d.number }

// Ack tells the server that an offer is done.
func (d *delivery) Ack() {
	defer d.to.offers.Done()
	if d.to.current(d) {
		d.to.told(d.ack())
		failpoint.Here("acked")
	}
	d.to.drop(d)
}

// Pass delivers an offer, or hands it back to the server if the intake is over.
func (d *delivery) Pass() {
	defer d.to.offers.Done()
	d.to.gate.RLock()
	defer d.to.gate.RUnlock()
	if !d.to.closed {
		d.to.line(d)
		return
	}
	d.to.told(d.nak(0))
	d.to.drop(d)
}

// ack tells the server that the message is done.
func (d *delivery) ack() error { return d.conn.Publish(d.in.Reply, []byte("+ACK")) }

// nak tells the server to deliver the message again after a delay, which may
// be 0.
func (d *delivery) nak(delay time.Duration) error {
	if delay <= 0 {
		return d.conn.Publish(d.in.Reply, []byte("-NAK"))
	}
	return d.conn.Publish(d.in.Reply, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// working tells the server that the message is being worked on.
func (d *delivery) working() error { return d.conn.Publish(d.in.Reply, []byte("+WPI")) }

var _ envelope.Offer = (*delivery)(nil)
