package deadletter

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Letter is a dead letter. What its headers don't say, or say in a form that
// the service never writes, is zero. Its texts may hold anything.
type Letter struct {
	ID     string         // its own; never empty, and the same at every visit
	Tenant timer.TenantID // whose it is; [timer.NoTenant] if it names nobody
	Reason timer.Reason   // for machines
	Detail string         // for people

	Topic      string // of the original
	Position   string // of the original in its topic
	OriginalID string // broker's id of the original

	FirstAt   time.Time // when it first became a dead letter
	LastAt    time.Time // when it last became one
	Count     int       // how often it became one, at least 1
	Replays   int       // how often it was replayed
	Truncated bool      // whether the body was cut

	CorrelationID string      // of the original, if the letter has it
	Trace         timer.Trace // of the original, if the letter has it
	Body          []byte      // of the original, byte for byte unless Truncated
}

// Read returns the letter that a message of [broker.DeadLetters] is. It refers
// to the body of the message.
func Read(routing broker.Routing, msg *message.Message) Letter {
	get := msg.Metadata.Get
	tenant, _ := routing.DeadLetterOf(get(broker.MetaTopic), msg)
	replays := envelope.ReplaysFrom(get)
	l := Letter{
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
	}
	if n, err := strconv.Atoi(get(envelope.HeaderDeadLetterCount)); err == nil && n > 0 {
		l.Count = n
	}
	// Who is in doubt whether a body is whole does not replay it.
	cut := get(envelope.HeaderDeadLetterTruncated)
	l.Truncated = cut != "" && cut != "false"
	return l
}

// idOf returns the id of a letter: its own, else one that follows from where it
// stands, since a driver makes up an id for what has none.
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

// timeOf returns the time that a header holds, or none.
func timeOf(header string) time.Time {
	at, err := envelope.ParseTime(header)
	if err != nil {
		return time.Time{}
	}
	return at
}

// replay returns the message that the letter's original is once more. Its id
// follows from the letter, so that the same replay has the same id. It follows
// from all that only those know who can read the letter, too: whoever guesses the
// id could publish something else under it, and the broker would drop the replay.
func (l Letter) replay() *message.Message {
	replays := l.Replays + 1
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "replay %q %q %d %d %q", l.ID, l.Tenant, replays, l.LastAt.UnixMilli(), l.Body))
	msg := message.NewMessage(id.String(), l.Body)
	set := func(name, value string) {
		if value != "" {
			msg.Metadata.Set(name, value)
		}
	}
	set(envelope.HeaderDeadLetterReplays, strconv.Itoa(replays))
	if !l.FirstAt.IsZero() {
		set(envelope.HeaderDeadLetterFirstAt, envelope.FormatTime(l.FirstAt))
	}
	set(envelope.HeaderCorrelationID, l.CorrelationID)
	set(envelope.HeaderTraceParent, l.Trace.Parent)
	set(envelope.HeaderTraceState, l.Trace.State)
	return msg
}
