package broker

import (
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// DeadLetterOf returns the tenant of a dead letter: the tenant that its topic names, else
// the tenant that its header names, else [timer.NoTenant]. It returns false if the topic
// is not a topic for dead letters.
func (r Routing) DeadLetterOf(topic string, deadLetter *message.Message) (timer.TenantID, bool) {
	t, named, matches := tenantIn(r.DeadLetters, topic)
	if !named {
		t = timer.TenantID(deadLetter.Metadata.Get(envelope.HeaderTenantID))
	}
	if t.Validate() != nil {
		t = timer.NoTenant
	}
	return t, matches
}

// tenantIn returns the tenant that a topic names, whether the template names a tenant at
// all, and whether the topic matches the template.
func tenantIn(template, topic string) (t timer.TenantID, named, matches bool) {
	before, after, named := strings.Cut(template, tenantToken)
	switch {
	case !named:
		return "", false, topic == template
	case len(topic) < len(before)+len(after) || !strings.HasPrefix(topic, before) || !strings.HasSuffix(topic, after):
		return "", true, false
	}
	return timer.TenantID(topic[len(before) : len(topic)-len(after)]), true, true
}

// ValidateVisit returns a [timer.ErrInvalid] unless t may be the tenant of a
// visit to dead letters: "" for all of them, [timer.NoTenant], or a valid one.
func ValidateVisit(t timer.TenantID) error {
	if t == "" || t == timer.NoTenant {
		return nil
	}
	return t.Validate()
}
