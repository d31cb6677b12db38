package broker_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/broker"
)

// A producer could otherwise say where its message came from.
func TestNothingThatIsForThisProcessIsAHeader(t *testing.T) {
	t.Parallel()
	msg := broker.Received("", "topic", nil)
	for name := range msg.Metadata {
		if !broker.IsMeta(name) {
			t.Errorf("%s may be a header", name)
		}
	}
	if msg.UUID == "" || msg.Metadata.Get(broker.MetaNoID) != "true" {
		t.Errorf("a message without an id is %s, %v", msg.UUID, msg.Metadata)
	}
	if msg := broker.Received("id", "topic", nil); msg.UUID != "id" || msg.Metadata.Get(broker.MetaNoID) != "" {
		t.Errorf("a message with an id is %s, %v", msg.UUID, msg.Metadata)
	}
}
