package broker

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
)

// Key returns the key of a message, "tenantId.serviceCallId", by which a partitioned
// broker selects its partition. It returns "" if the headers do not name both ids; all
// messages of the service name them.
func Key(msg *message.Message) string {
	tenant, call := msg.Metadata[envelope.HeaderTenantID], msg.Metadata[envelope.HeaderServiceCallID]
	if tenant == "" || call == "" {
		return ""
	}
	return tenant + "." + call
}
