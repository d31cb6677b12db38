package nats

import (
	"fmt"
	"maps"
	"net/textproto"
	"strings"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// maxMessageID is the length of the longest id a message is published under, in
// bytes.
const maxMessageID = 512

// marshaler makes the messages that users of watermill-nats read and write.
var marshaler wmnats.NATSMarshaler

// marshal makes a message for the wire, or returns a [broker.ErrRefused]. It leaves out
// metadata that can't be a header, or that the server would take for a command.
func marshal(subject string, msg *message.Message) (*natsgo.Msg, error) {
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	if len(msg.UUID) > maxMessageID || !validValue(msg.UUID) {
		return nil, fmt.Errorf("%w: message id %s can't be a header", broker.ErrRefused, timer.Quote(msg.UUID))
	}
	out, err := marshaler.Marshal(subject, sendable(msg))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", broker.ErrRefused, err)
	}
	if msg.Metadata[envelope.HeaderMessageID] == msg.UUID { // any client can read that header
		out.Header.Del(wmnats.WatermillUUIDHdr)
	}
	if msg.UUID != "" {
		out.Header.Set(natsgo.MsgIdHdr, msg.UUID)
	}
	return out, nil
}

// sendable returns the message, without the metadata that can't be sent.
func sendable(msg *message.Message) *message.Message {
	ok := func(name, value string) bool { return broker.IsHeader(name) && validValue(value) && !reserved(name) }
	for name, value := range msg.Metadata {
		if !ok(name, value) {
			clean := &message.Message{UUID: msg.UUID, Payload: msg.Payload, Metadata: maps.Clone(msg.Metadata)}
			maps.DeleteFunc(clean.Metadata, func(name, value string) bool { return !ok(name, value) })
			return clean
		}
	}
	return msg
}

// unmarshal makes a message of anything that came on a subject. It never fails, since a
// malformed message must reach the handlers to become a dead letter.
func unmarshal(subject string, header natsgo.Header, body []byte) *message.Message {
	msg := broker.Received(idOf(header), subject, body)
	for name, values := range header {
		if len(values) > 0 && !reserved(name) {
			msg.Metadata[name] = values[0]
		}
	}
	return msg
}

// idOf returns the id of a message: its id for deduplication, without one an id that its
// producer may have given it, or "" if it has none.
func idOf(header natsgo.Header) string {
	for _, name := range []string{natsgo.MsgIdHdr, wmnats.WatermillUUIDHdr, envelope.HeaderMessageID} {
		if id := header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// reserved reports whether a header is not metadata, but a command to the server or a
// header of this driver.
func reserved(name string) bool {
	const prefix = "Nats-"
	return name == wmnats.WatermillUUIDHdr || broker.IsMeta(name) || len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// validValue reports whether a value is read from a header exactly as it was written.
func validValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return textproto.TrimString(value) == value
}

// maxSubject is the length in bytes of the longest subject that is published to. A
// protocol line over 4 KiB makes the server close the connection, for good.
const maxSubject = 1024

// checkSubject returns a [broker.ErrRefused] unless a message may be published
// to the subject.
func checkSubject(subject string) error {
	return checkTokens(subject, func(token string) bool { return !strings.ContainsAny(token, "*>") })
}

// checkFilter returns a [broker.ErrRefused] unless the subject, which may hold
// wildcards, may be subscribed to.
func checkFilter(subject string) error {
	return checkTokens(strings.TrimSuffix(subject, ".>"), func(token string) bool {
		return token == "*" || !strings.ContainsAny(token, "*>")
	})
}

func checkTokens(subject string, valid func(token string) bool) error {
	if err := broker.CheckName("subject", subject, maxSubject, "$", "_INBOX.", "_INBOX_"); err != nil {
		return err
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || !valid(token) {
			return fmt.Errorf("%w: subject %s has an empty token or a wildcard", broker.ErrRefused, timer.Quote(subject))
		}
	}
	return nil
}
