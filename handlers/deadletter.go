package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	poisonTopic    = "dead letters" // stands for the topic of the tenant
	maxDetailBytes = 512
	publishTimeout = 10 * time.Second // of a dead letter; then its original is delivered again

	// These limits are for a topic that accepts nothing, so that invalid messages of one
	// tenant do not fill the window of all tenants.
	maxUnderWay = 256                    // dead letters that are published at once
	underWay    = 250 * time.Millisecond // how long others wait; then their originals are delivered again
)

// deadLetters publishes invalid messages to the topics of their tenants. Watermill's poison
// queue, which knows one topic, uses it as a publisher.
type deadLetters struct {
	receipts Receipts // nil: no receipts
	pub      broker.Publisher
	routing  Routing
	clock    timer.Clock
	log      *slog.Logger
	refused  *digest.Digest
	limiter  letterLimiter
	kept     func(string) // called with how much of a dead letter was kept

	mu     sync.Mutex
	topics map[string]*topicSlots
}

// topicSlots limit how many dead letters of one topic are published at once.
type topicSlots struct {
	slots *semaphore.Weighted
	users int
}

// enter waits for a turn of a topic, and fails if that takes too long. The caller calls leave
// in both cases.
func (l *deadLetters) enter(ctx context.Context, topic string) (leave func(), err error) {
	l.mu.Lock()
	t := l.topics[topic]
	if t == nil {
		t = &topicSlots{slots: semaphore.NewWeighted(maxUnderWay)}
		l.topics[topic] = t
	}
	t.users++
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, underWay)
	defer cancel()
	err = t.slots.Acquire(ctx, 1)
	return func() {
		if err == nil {
			t.slots.Release(1)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(l.topics, topic)
		}
	}, err
}

// Publish publishes the dead letter of a message.
func (l *deadLetters) Publish(_ string, messages ...*message.Message) error {
	return l.publish(receivedOf(messages[0]))
}

// Close does nothing: the publisher belongs to the caller.
func (l *deadLetters) Close() error { return nil }

// publish publishes the dead letter of a delivery, or as much of it as its tenant may have and
// the broker takes. With its headers a dead letter is larger than its original, and if it could
// not be published, the original would be delivered again for ever.
func (l *deadLetters) publish(d *receivedMessage) error {
	ctx, cancel := context.WithTimeout(d.ctx, publishTimeout)
	defer cancel()
	tenant := l.tenantOf(d)
	from, trace := d.origin, d.carried
	envelope.Complete(d.msg.Metadata.Get, &from.CorrelationID, &trace)
	dead := broker.Message{Topic: l.routing.DeadLettersOf(tenant), Message: l.deadLetter(tenant, from, d)}
	kept := l.limiter.ask(l.clock.Now(), tenant, dead.Message)
	if kept != KeptNothing {
		var err error
		if kept, err = l.send(ctx, dead, kept == KeptHeaders); err != nil {
			return fmt.Errorf("publish a dead letter to %s: %w", dead.Topic, err)
		}
	}
	l.limiter.done(l.clock.Now(), tenant, dead.Message, kept)
	l.kept(kept)
	failpoint.Here("dead-lettered")
	if l.receipts != nil && tenant != timer.NoTenant {
		why, now := d.why(), l.clock.Now()
		if err := l.receipts(ctx, now, timer.Receipt{
			Type: timer.TimerRejected, Key: timer.Key{TenantID: tenant, ServiceCallID: from.ServiceCallID},
			CommandID: from.ID, CorrelationID: from.CorrelationID, Trace: trace,
			Reason: why.Reason, Detail: visible(why.Detail), At: now,
		}); err != nil {
			return fmt.Errorf("write a receipt: %w", err)
		}
	}
	l.report(ctx, tenant, from, dead.Message, kept)
	return nil
}

// send publishes a dead letter, and returns how much of it the broker has. If the broker refuses
// it, it is published again with a shorter body.
func (l *deadLetters) send(ctx context.Context, dead broker.Message, cut bool) (kept string, err error) {
	leave, err := l.enter(ctx, dead.Topic)
	defer leave()
	if err != nil {
		return "", fmt.Errorf("%d others wait for that", maxUnderWay)
	}
	shorten := func(to int) {
		dead.Payload = dead.Payload[:to]
		dead.Metadata.Set(envelope.HeaderDeadLetterTruncated, "true")
	}
	if cut {
		shorten(0)
	}
	for {
		err = l.pub.Publish(ctx, dead)[0]
		full := errors.Is(err, broker.ErrDeadLettersFull)
		switch {
		case full && len(dead.Payload) == 0:
			return KeptNothing, nil
		case full:
			shorten(0)
		case errors.Is(err, broker.ErrRefused) && len(dead.Payload) > 0:
			shorten(min(len(dead.Payload)/2, envelope.MaxBytes))
		case len(dead.Payload) == 0 && dead.Metadata.Get(envelope.HeaderDeadLetterTruncated) != "":
			return KeptHeaders, err
		default:
			return KeptWhole, err
		}
	}
}

// report logs that a message was refused: the first of its tenant and reason in a minute, and
// how many there were. At the level debug it logs each message.
func (l *deadLetters) report(ctx context.Context, tenant timer.TenantID, from envelope.Origin, dead *message.Message, kept string) {
	reason := timer.Reason(dead.Metadata.Get(envelope.HeaderDeadLetterReason))
	id := dead.Metadata.Get(envelope.HeaderDeadLetterOriginalID)
	kind := []any{"tenant_id", tenant, "reason", reason}
	if kept != KeptWhole {
		kind = append(kind, "dead_letter_kept", kept)
	}
	l.refused.Note(1, kind, "first_message_id", id, "first_correlation_id", from.CorrelationID, "first_dead_letter_id", dead.UUID)
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "message refused", "tenant_id", tenant, "service_call_id", from.ServiceCallID, "correlation_id", from.CorrelationID,
			"message_id", id, "reason", reason, "dead_letter_id", dead.UUID)
	}
}

// tenantOf returns the tenant of a dead letter. It is the tenant in the topic's name, since
// brokers guard topics, or the tenant in the body if the topic names none.
func (l *deadLetters) tenantOf(d *receivedMessage) timer.TenantID {
	if tenant, named := l.routing.TenantOf(d.msg.Metadata.Get(broker.MetaTopic)); named {
		if tenant.Validate() != nil {
			return timer.NoTenant
		}
		return tenant
	}
	return cmp.Or(d.origin.TenantID, timer.NoTenant)
}

// deadLetter makes the dead letter of a message: its body, and headers of our own. Of the
// original's headers it copies a valid correlation id, and the id if the body has none.
func (l *deadLetters) deadLetter(tenant timer.TenantID, origin envelope.Origin, d *receivedMessage) *message.Message {
	original, why := d.msg, d.why()
	from := original.Metadata
	topic := cmp.Or(from.Get(broker.MetaTopic), message.SubscribeTopicFromCtx(d.ctx))
	id := origin.ID
	if id == "" && from.Get(broker.MetaNoID) == "" {
		id = original.UUID
	}
	replays := envelope.ReplaysFrom(from.Get)
	now := l.clock.Now()
	first := firstAt(original, replays, now)
	if replays > 0 && why.Reason == timer.ReasonOverQuota {
		replays-- // a quota says nothing about the message, so this replay does not count
	}

	made := message.NewMessage(deadLetterID(topic, original), original.Payload)
	for header, value := range map[string]string{
		envelope.HeaderType:                 envelope.TypeDeadLetter,
		envelope.HeaderTenantID:             string(tenant),
		envelope.HeaderMessageID:            made.UUID,
		envelope.HeaderDeadLetterReason:     string(why.Reason),
		envelope.HeaderDeadLetterDetail:     visible(why.Detail),
		envelope.HeaderDeadLetterTopic:      visible(topic),
		envelope.HeaderDeadLetterPosition:   from.Get(broker.MetaPosition),
		envelope.HeaderDeadLetterOriginalID: visible(id),
		envelope.HeaderCorrelationID:        origin.CorrelationID,
		envelope.HeaderDeadLetterFirstAt:    first,
		envelope.HeaderDeadLetterLastAt:     envelope.FormatTime(now),
		envelope.HeaderDeadLetterCount:      strconv.Itoa(replays + 1),
		envelope.HeaderDeadLetterReplays:    strconv.Itoa(replays),
	} {
		if value != "" {
			made.Metadata.Set(header, value)
		}
	}
	return made
}

// deadLetterID returns the id of a dead letter. It differs from the id of the original,
// because the broker would drop it as a duplicate. If the position of the original is known,
// the id is derived from it. So if the ack of the original was lost and the dead letter is
// published again, the broker drops the second one.
func deadLetterID(topic string, original *message.Message) string {
	position := original.Metadata.Get(broker.MetaPosition)
	if position == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%q %q %s", topic, position, original.Payload)).String()
}

// firstAt returns when the message first became a dead letter. A replayed message carries
// that time. It comes from outside, so it is used only if it has the form that this function
// writes, and is in the past.
func firstAt(msg *message.Message, replays int, now time.Time) string {
	carried := msg.Metadata.Get(envelope.HeaderDeadLetterFirstAt)
	at, err := envelope.ParseTime(carried)
	if replays == 0 || err != nil || at.After(now) || envelope.FormatTime(at) != carried {
		return envelope.FormatTime(now)
	}
	return carried
}

// visible makes s fit a header: at most maxDetailBytes of visible ASCII and spaces.
func visible(s string) string { return envelope.Visible(s[:min(len(s), maxDetailBytes)]) }
