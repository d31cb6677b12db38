package app_test

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A poison is a message that no retry can help.
type poison struct {
	body   string
	tenant timer.TenantID // whose dead letter it becomes
	reason timer.Reason
	letter string // id of the dead letter, once there is one
}

// poisonous are bodies that no retry can help.
var poisonous = []poison{
	{body: `{`, tenant: timer.NoTenant, reason: timer.ReasonNotJSON},
	{body: `{"id":"x","type":"ScheduleTimer","timestampMs":1,"payload":{}}`, tenant: timer.NoTenant, reason: timer.ReasonMissingField},
	{
		body:   `{"id":"x","type":"CancelTimer","tenantId":"tenant-1","timestampMs":1,"payload":{"tenantId":"tenant-2","serviceCallId":"c"}}`,
		tenant: "tenant-1", reason: timer.ReasonTenantMismatch,
	},
	{
		body:   `{"id":"x","type":"ScheduleTimer","tenantId":"tenant-0","timestampMs":1,"payload":{"tenantId":"tenant-0","serviceCallId":"c","dueAt":"tomorrow"}}`,
		tenant: "tenant-0", reason: timer.ReasonBadTime,
	},
}

func (w *world) sendPoison(id string, n int) {
	p := poisonous[n%len(poisonous)]
	w.poison[id] = p
	w.broker.send(message.NewMessage(id, []byte(p.body)))
}

// checkDead checks a dead letter: that it is of poison, whole, and only one.
func (w *world) checkDead(letter *message.Message) error {
	original := letter.Metadata.Get(envelope.HeaderDeadLetterOriginalID)
	p, known := w.poison[original]
	if letter.Metadata.Get(envelope.HeaderDeadLetterReason) == string(timer.ReasonOverQuota) {
		return w.checkOverQuota(letter)
	}
	switch {
	case !known:
		return errors.New("of a healthy command")
	case string(letter.Payload) != p.body:
		return fmt.Errorf("has another body: %q", letter.Payload)
	case letter.Metadata.Get("topic") != simRouting.DeadLettersOf(p.tenant):
		return fmt.Errorf("went to %s", letter.Metadata.Get("topic"))
	case letter.Metadata.Get(envelope.HeaderDeadLetterReason) != string(p.reason):
		return fmt.Errorf("has the reason %s, want %s", letter.Metadata.Get(envelope.HeaderDeadLetterReason), p.reason)
	case p.letter != "" && p.letter != letter.UUID:
		return fmt.Errorf("came before, as %s", p.letter)
	case p.letter != "" && !w.faulty:
		return errors.New("came twice, though nothing failed")
	}
	p.letter = letter.UUID
	w.poison[original] = p
	return nil
}
