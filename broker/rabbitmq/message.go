package rabbitmq

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	maxBody    = 1 << 20   // bytes; an envelope has 64 KiB at most
	maxHeaders = 100 << 10 // bytes of names and values; all must fit in one frame
	maxShort   = 255       // bytes of a short string: ids, names of headers
	jsonType   = "application/json"
)

// marshal makes a message for the wire, or returns a [broker.ErrRefused]. What
// can't be a header, or is a command to the server, is left out.
func marshal(topic string, msg *message.Message) (amqp.Publishing, error) {
	if err := checkName(topic); err != nil {
		return amqp.Publishing{}, err
	}
	refuse := func(why string) (amqp.Publishing, error) {
		return amqp.Publishing{}, fmt.Errorf("%w: %s", broker.ErrRefused, why)
	}
	switch {
	case len(msg.Payload) > maxBody:
		return refuse(fmt.Sprintf("body of %d bytes, the limit is %d", len(msg.Payload), maxBody))
	case !isShort(msg.UUID):
		return refuse("message id " + timer.Quote(msg.UUID) + " can't be a property")
	}
	out := amqp.Publishing{
		Headers:      make(amqp.Table, len(msg.Metadata)),
		ContentType:  jsonType,
		DeliveryMode: amqp.Persistent,
		MessageId:    msg.UUID,
		Timestamp:    time.Now(), //nolint:forbidigo // for people; the body has the time that counts
		Body:         msg.Payload,
	}
	bytes := 0
	for name, value := range msg.Metadata {
		if reserved(name) || !validName(name) || !utf8.ValidString(value) {
			continue
		}
		out.Headers[name] = value
		bytes += len(name) + len(value) + 8
	}
	if bytes > maxHeaders {
		return refuse(fmt.Sprintf("headers of %d bytes, the limit is %d", bytes, maxHeaders))
	}
	if id := msg.Metadata.Get(envelope.HeaderCorrelationID); isShort(id) {
		out.CorrelationId = id
	}
	if kind := msg.Metadata.Get(envelope.HeaderContentType); kind != "" && isShort(kind) {
		out.ContentType = kind
	}
	if kind := msg.Metadata.Get(envelope.HeaderType); isShort(kind) {
		out.Type = kind
	}
	return out, nil
}

// unmarshal makes a message of whatever came from a topic. It never fails: what
// makes no sense must reach the handlers, to become a dead letter.
func unmarshal(topic string, in *amqp.Delivery) *message.Message {
	msg := message.NewMessage(idOf(in), in.Body)
	for name, value := range in.Headers {
		if reserved(name) {
			continue
		}
		if text, ok := readable(value); ok {
			msg.Metadata[name] = text
		}
	}
	for _, name := range properties {
		if _, ok := msg.Metadata[name]; !ok {
			if value := property(in, name); value != "" {
				msg.Metadata[name] = value
			}
		}
	}
	msg.Metadata[broker.MetaTopic] = topic
	return msg
}

// header returns the value of a header as unmarshal has it, or "".
func header(in *amqp.Delivery, name string) string {
	if reserved(name) {
		return ""
	}
	if text, ok := readable(in.Headers[name]); ok {
		return text
	}
	return property(in, name)
}

// properties are the headers that AMQP has a property for.
var properties = [...]string{envelope.HeaderCorrelationID, envelope.HeaderType, envelope.HeaderContentType}

// property returns the property that stands for a header, or "".
func property(in *amqp.Delivery, name string) string {
	switch name {
	case envelope.HeaderCorrelationID:
		return in.CorrelationId
	case envelope.HeaderType:
		return in.Type
	case envelope.HeaderContentType:
		if in.ContentType != jsonType { // which says nothing that is not so anyway
			return in.ContentType
		}
	}
	return ""
}

// idOf returns the id of a message: that of AMQP, else what a producer may have
// called it, else a new one.
func idOf(in *amqp.Delivery) string {
	if in.MessageId != "" {
		return in.MessageId
	}
	if id, _ := readable(in.Headers[envelope.HeaderMessageID]); id != "" {
		return id
	}
	return uuid.NewString()
}

// readable returns the value of a header as text. It returns false for one that
// is none: nothing, a table, a list.
func readable(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case int8, int16, int32, int64, int, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// reserved reports whether a header is not metadata: the server takes it for a
// command (CC and BCC copy the message into other queues), it is the server's
// own, or ours.
func reserved(name string) bool {
	switch name {
	case "", broker.MetaTopic, broker.MetaPosition, broker.MetaDelivery:
		return true
	}
	const prefix = "x-"
	return strings.EqualFold(name, "CC") || strings.EqualFold(name, "BCC") ||
		len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// validName reports whether name is a token by RFC 9110, section 5.6.2, which
// every client can read.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return name != "" && len(name) <= maxShort
}

// isShort reports whether s can be a property.
func isShort(s string) bool { return len(s) <= maxShort && utf8.ValidString(s) }
