package rabbitmq

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	maxBody  = 1 << 20 // bytes; an envelope has at most 64 KiB
	maxShort = 255     // bytes of a short string: ids, names of headers
	jsonType = "application/json"
)

// marshal makes a message for the server, or returns a [broker.ErrRefused]. It leaves out
// metadata that can't be a header, or that the server would take for a command.
func marshal(topic string, msg *message.Message) (outgoingMessage, error) {
	if err := checkName(topic); err != nil {
		return outgoingMessage{}, err
	}
	switch {
	case len(msg.Payload) > maxBody:
		return outgoingMessage{}, fmt.Errorf("%w: body of %d bytes, the limit is %d", broker.ErrRefused, len(msg.Payload), maxBody)
	case !isShort(msg.UUID):
		return outgoingMessage{}, fmt.Errorf("%w: message id %s can't be a property", broker.ErrRefused, timer.Quote(msg.UUID))
	}
	out := outgoingMessage{topic: topic, properties: headerBytes + len(msg.UUID), Publishing: amqp.Publishing{
		Headers:      make(amqp.Table, len(msg.Metadata)),
		ContentType:  jsonType,
		DeliveryMode: amqp.Persistent,
		MessageId:    msg.UUID,
		Timestamp:    clock(), // for people; the body has the time that counts
		Body:         msg.Payload,
	}}
	for name, value := range msg.Metadata {
		if reserved(name) || !broker.IsHeader(name) || len(name) > maxShort || !utf8.ValidString(value) {
			continue
		}
		out.Headers[name] = value
		out.properties += len(name) + len(value) + 8
	}
	for _, p := range []struct {
		name     string
		property *string
	}{
		{envelope.HeaderCorrelationID, &out.CorrelationId}, {envelope.HeaderType, &out.Type}, {envelope.HeaderContentType, &out.ContentType},
	} {
		if value := msg.Metadata.Get(p.name); value != "" && isShort(value) {
			*p.property = value
			out.properties += len(value)
		}
	}
	return out, nil
}

// unmarshal makes a message of anything that came from a topic. It never fails, since a
// malformed message must reach the handlers to become a dead letter.
func unmarshal(topic string, in *amqp.Delivery) *message.Message {
	if strings.Contains(topic, anyTenant) {
		topic = in.RoutingKey // the server has checked that its producer may write it
	}
	msg := broker.Received(idOf(in), topic, in.Body)
	for name, value := range in.Headers {
		if reserved(name) {
			continue
		}
		if text, ok := readable(value); ok {
			msg.Metadata[name] = text
		}
	}
	kind := in.ContentType
	if kind == jsonType { // it is the default, so the metadata need not name it
		kind = ""
	}
	for _, property := range [...]struct{ name, value string }{
		{envelope.HeaderCorrelationID, in.CorrelationId}, {envelope.HeaderType, in.Type}, {envelope.HeaderContentType, kind},
	} {
		if _, ok := msg.Metadata[property.name]; !ok && property.value != "" {
			msg.Metadata[property.name] = property.value
		}
	}
	return msg
}

// idOf returns the id of a message: its AMQP message id, without one an id that its producer may
// have given it, or "" if it has none.
func idOf(in *amqp.Delivery) string {
	if in.MessageId != "" {
		return in.MessageId
	}
	id, _ := readable(in.Headers[envelope.HeaderMessageID])
	return id
}

// readable returns the value of a header as text. It returns false for nil, a table or a
// list.
func readable(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case bool, float32, float64, int8, int16, int32, int64, int, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// reserved reports whether a header is not metadata. The server takes CC and BCC for
// commands to copy the message into other queues; other reserved headers belong to the
// server or to this driver.
func reserved(name string) bool {
	const prefix = "x-"
	return name == "" || broker.IsMeta(name) || strings.EqualFold(name, "CC") || strings.EqualFold(name, "BCC") ||
		len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// isShort reports whether s can be a property.
func isShort(s string) bool { return len(s) <= maxShort && utf8.ValidString(s) }
