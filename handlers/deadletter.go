package handlers

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	poisonTopic    = "dead letters" // stands for the topic of whichever tenant it is
	maxDetailBytes = 512
)

// deadLetters publishes invalid messages. To Watermill's poison queue, which
// knows one topic, it is a publisher; it names the topic by the tenant.
type deadLetters struct {
	pub     message.Publisher
	routing Routing
	clock   timer.Clock
}

// Close does nothing: the publisher belongs to the caller.
func (d *deadLetters) Close() error { return nil }

// Publish publishes the dead letters of messages. What the broker refuses whole
// goes out with its body cut, as short as it takes: with its headers a dead
// letter is larger than its original, and one that can't be published would
// bring the original back for ever.
func (d *deadLetters) Publish(_ string, messages ...*message.Message) error {
	for _, original := range messages {
		tenant := d.tenantOf(original)
		topic := d.routing.DeadLettersOf(tenant)
		letter := d.letter(tenant, original)
		err := d.pub.Publish(topic, letter)
		for errors.Is(err, timer.ErrInvalid) && len(letter.Payload) > 0 {
			keep := min(len(letter.Payload)/2, envelope.MaxBytes)
			letter = d.letter(tenant, original)
			letter.Payload = letter.Payload[:keep]
			letter.Metadata.Set(envelope.HeaderDeadLetterTruncated, "true")
			err = d.pub.Publish(topic, letter)
		}
		if err != nil {
			return fmt.Errorf("publish dead letter to %s: %w", topic, err)
		}
		failpoint.Here("buried")
	}
	return nil
}

// tenantOf returns whose dead letter it is: the tenant that the topic names,
// since brokers guard topics, else the one that the body names.
func (d *deadLetters) tenantOf(original *message.Message) timer.TenantID {
	if tenant, named := d.routing.TenantOf(original.Metadata.Get(envelope.MetaTopic)); named {
		if tenant.Validate() != nil {
			return timer.NoTenant
		}
		return tenant
	}
	return envelope.TenantOf(original.Payload)
}

// letter makes the dead letter of a message: its body, and headers of our own.
// None of the original's headers is copied.
func (d *deadLetters) letter(tenant timer.TenantID, original *message.Message) *message.Message {
	from := original.Metadata
	topic := from.Get(envelope.MetaTopic)
	if topic == "" {
		topic = from.Get(middleware.PoisonedTopicKey)
	}
	replays := envelope.ReplaysFrom(from.Get)
	now := d.clock.Now()

	letter := message.NewMessage(letterID(topic, original), original.Payload)
	for header, value := range map[string]string{
		envelope.HeaderType:                 envelope.TypeDeadLetter,
		envelope.HeaderTenantID:             string(tenant),
		envelope.HeaderMessageID:            letter.UUID,
		envelope.HeaderDeadLetterReason:     from.Get(envelope.HeaderDeadLetterReason),
		envelope.HeaderDeadLetterDetail:     visible(from.Get(envelope.HeaderDeadLetterDetail)),
		envelope.HeaderDeadLetterTopic:      visible(topic),
		envelope.HeaderDeadLetterPosition:   from.Get(envelope.MetaPosition),
		envelope.HeaderDeadLetterOriginalID: visible(original.UUID),
		envelope.HeaderDeadLetterFirstAt:    firstAt(original, replays, now),
		envelope.HeaderDeadLetterLastAt:     envelope.FormatTime(now),
		envelope.HeaderDeadLetterCount:      strconv.Itoa(replays + 1),
		envelope.HeaderDeadLetterReplays:    strconv.Itoa(replays),
	} {
		if value != "" {
			letter.Metadata.Set(header, value)
		}
	}
	return letter
}

// letterID returns the id of a dead letter. It is never that of the original,
// which the broker would drop as a duplicate. If the position of the original
// is known the id follows from it, so that a letter which is published again,
// because the ack of its original was lost, is the duplicate that it is.
func letterID(topic string, original *message.Message) string {
	position := original.Metadata.Get(envelope.MetaPosition)
	if position == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%q %q %s", topic, position, original.Payload)).String()
}

// firstAt returns when the message first became a dead letter. A replayed one
// carries that time. It comes from outside, so it counts only in the form in
// which it is written here, and if it is past.
func firstAt(msg *message.Message, replays int, now time.Time) string {
	carried := msg.Metadata.Get(envelope.HeaderDeadLetterFirstAt)
	at, err := envelope.ParseTime(carried)
	if replays == 0 || err != nil || at.After(now) || envelope.FormatTime(at) != carried {
		return envelope.FormatTime(now)
	}
	return carried
}

// visible makes s fit a header: at most maxDetailBytes of visible ASCII and
// spaces.
func visible(s string) string {
	if len(s) > maxDetailBytes {
		s = s[:maxDetailBytes]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
