package broker_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestWhoseDeadLetterItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template, topic, header string
		want                    timer.TenantID
		matches                 bool
	}{
		{"svc.{tenant}.dlq", "svc.acme.dlq", "", "acme", true},
		{"svc.{tenant}.dlq", "svc.acme.dlq", "other", "acme", true}, // brokers guard topics, not headers
		{"svc.{tenant}.dlq", "svc._.dlq", "acme", timer.NoTenant, true},
		{"svc.{tenant}.dlq", "svc..dlq", "acme", timer.NoTenant, true},
		{"svc.{tenant}.dlq", "svc.dlq", "acme", timer.NoTenant, false},
		{"svc.{tenant}.dlq", "svc.acme.serviceCall", "acme", timer.NoTenant, false},
		{"events.dlq", "events.dlq", "acme", "acme", true},
		{"events.dlq", "events.dlq", "", timer.NoTenant, true},
		{"events.dlq", "events.dlq", "a b", timer.NoTenant, true},
		{"events.dlq", "events", "acme", "acme", false},
	} {
		deadLetter := message.NewMessage("id", nil)
		deadLetter.Metadata.Set(envelope.HeaderTenantID, tt.header)
		got, matches := broker.Routing{DeadLetters: tt.template}.DeadLetterOf(tt.topic, deadLetter)
		if matches != tt.matches || matches && got != tt.want {
			t.Errorf("%s from %s: %q, %v; want %q, %v", tt.template, tt.topic, got, matches, tt.want, tt.matches)
		}
	}
}
