package app_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// firstMS is the least timestampMs of a command that is accepted: the beginning
// of all bubbles.
const firstMS = 946_684_800_000

// A poison is a message that no retry can help.
type poison struct {
	body       string
	tenant     timer.TenantID // whose dead letter it becomes
	reason     timer.Reason
	deadLetter string // id of the dead letter, once there is one
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
	p.body = strings.Replace(p.body, `"id":"x"`, `"id":"`+id+`"`, 1)
	w.poison[id] = p
	w.broker.send(message.NewMessage(id, []byte(p.body)))
}

// checkDead checks a dead letter: that it is of poison, whole, and only one.
func (w *world) checkDead(dead *message.Message) error {
	original := dead.Metadata.Get(envelope.HeaderDeadLetterOriginalID)
	p, known := w.poison[original]
	if dead.Metadata.Get(envelope.HeaderDeadLetterReason) == string(timer.ReasonOverQuota) {
		return w.checkOverQuota(dead)
	}
	switch {
	case !known:
		return errors.New("of a healthy command")
	case string(dead.Payload) != p.body:
		return fmt.Errorf("has another body: %q", dead.Payload)
	case dead.Metadata.Get("topic") != simRouting.DeadLettersOf(p.tenant):
		return fmt.Errorf("went to %s", dead.Metadata.Get("topic"))
	case dead.Metadata.Get(envelope.HeaderDeadLetterReason) != string(p.reason):
		return fmt.Errorf("has the reason %s, want %s", dead.Metadata.Get(envelope.HeaderDeadLetterReason), p.reason)
	case p.deadLetter != "" && p.deadLetter != dead.UUID:
		return fmt.Errorf("came before, as %s", p.deadLetter)
	case p.deadLetter != "" && !w.faulty:
		return errors.New("came twice, though nothing failed")
	}
	p.deadLetter = dead.UUID
	w.poison[original] = p
	return nil
}
