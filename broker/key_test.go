package broker_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

func TestKeyIsThatOfTheHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct{ tenant, call, want string }{
		{"acme", "order-1", "acme.order-1"},
		{"acme", "a.b", "acme.a.b"},
		{"acme", "", ""},
		{"", "order-1", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		msg := message.NewMessage("id", nil)
		msg.Metadata.Set(envelope.HeaderTenantID, tt.tenant)
		msg.Metadata.Set(envelope.HeaderServiceCallID, tt.call)
		if got := broker.Key(msg); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.tenant, tt.call, got, tt.want)
		}
	}
}
