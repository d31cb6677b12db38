package deadletter

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Message is a dead letter. A field is zero if its header is absent, or malformed in a
// way that the service never writes. Texts may contain anything.
type Message struct {
	ID     string         // id of the dead letter; never empty, and the same at every visit
	Tenant timer.TenantID // tenant; [timer.NoTenant] if the dead letter names none
	Reason timer.Reason   // reason for machines
	Detail string         // reason for people

	Topic      string // topic of the original
	Position   string // position of the original in its topic
	OriginalID string // id of the original: the id in its body, or without one the id of its message

	FirstAt   time.Time // when the message first became a dead letter
	LastAt    time.Time // when it last became a dead letter
	Count     int       // how often it became a dead letter, at least 1
	Replays   int       // how often it was replayed
	Truncated bool      // whether the body was cut

	CorrelationID string      // correlation id of the original, if it has one
	Trace         timer.Trace // trace of the original, if it has one
	Body          []byte      // body of the original, byte for byte unless Truncated

	Seek string // where a visit can begin with it, see [broker.MetaSeek]; empty if the broker can't seek
}

// Ref returns a text that names the dead letter: its id, and where the broker has it if a visit
// can begin there, so that it is found at once.
func (m Message) Ref() string {
	if m.Seek == "" {
		return m.ID
	}
	return m.ID + "@" + m.Seek
}

// Read decodes a message of [broker.DeadLetters]. The result refers to the body of the
// message.
func Read(routing broker.Routing, msg *message.Message) Message {
	get := msg.Metadata.Get
	tenant, _ := routing.DeadLetterOf(get(broker.MetaTopic), msg)
	replays := envelope.ReplaysFrom(get)
	m := Message{
		ID:            idOf(msg),
		Tenant:        tenant,
		Reason:        timer.Reason(get(envelope.HeaderDeadLetterReason)),
		Detail:        get(envelope.HeaderDeadLetterDetail),
		Topic:         get(envelope.HeaderDeadLetterTopic),
		Position:      get(envelope.HeaderDeadLetterPosition),
		OriginalID:    get(envelope.HeaderDeadLetterOriginalID),
		FirstAt:       timeOf(get(envelope.HeaderDeadLetterFirstAt)),
		LastAt:        timeOf(get(envelope.HeaderDeadLetterLastAt)),
		Count:         replays + 1,
		Replays:       replays,
		CorrelationID: envelope.CorrelationFrom(get),
		Trace:         envelope.TraceFrom(get),
		Body:          msg.Payload,
		Seek:          get(broker.MetaSeek),
	}
	if n, err := strconv.Atoi(get(envelope.HeaderDeadLetterCount)); err == nil && n > 0 {
		m.Count = n
	}
	// A body that may be incomplete is not replayed.
	cut := get(envelope.HeaderDeadLetterTruncated)
	m.Truncated = cut != "" && cut != "false"
	return m
}

// idOf returns the id of a dead letter: its own id, or without one an id that is derived from
// its position. The id of msg would differ at each visit, since a driver makes up an id for a
// message without one.
func idOf(msg *message.Message) string {
	id := msg.Metadata.Get(envelope.HeaderMessageID)
	if timer.ValidateID("id", id) == nil {
		return id
	}
	position := msg.Metadata.Get(broker.MetaPosition)
	if position == "" {
		return msg.UUID
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%q %q", msg.Metadata.Get(broker.MetaTopic), position)).String()
}

// timeOf returns the time in a header, or the zero time.
func timeOf(header string) time.Time {
	at, err := envelope.ParseTime(header)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Replayable returns why a dead letter can't be replayed to any topic; nil if it may be
// replayed.
func (m Message) Replayable() error {
	switch {
	case m.Truncated:
		return errors.New("its body was cut, so it is not the original")
	case m.Replays >= MaxReplays:
		return fmt.Errorf("it was replayed %d times already", m.Replays)
	}
	return nil
}

// replay returns the original as a new message. Its id is derived from the dead letter,
// so that the same replay has the same id. It is derived from all parts of the dead
// letter, so that it can't be guessed: with a known id a client could publish another message
// first, and the broker would drop the replay as its repetition.
func (m Message) replay() *message.Message {
	replays := m.Replays + 1
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "replay %q %q %d %d %q", m.ID, m.Tenant, replays, m.LastAt.UnixMilli(), m.Body))
	msg := message.NewMessage(id.String(), m.Body)
	set := func(name, value string) {
		if value != "" {
			msg.Metadata.Set(name, value)
		}
	}
	set(envelope.HeaderDeadLetterReplays, strconv.Itoa(replays))
	if !m.FirstAt.IsZero() {
		set(envelope.HeaderDeadLetterFirstAt, envelope.FormatTime(m.FirstAt))
	}
	set(envelope.HeaderCorrelationID, m.CorrelationID)
	set(envelope.HeaderTraceParent, m.Trace.Parent)
	set(envelope.HeaderTraceState, m.Trace.State)
	return msg
}
