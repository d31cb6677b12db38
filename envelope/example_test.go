package envelope_test

import (
	"fmt"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func ExampleDecode() {
	body := []byte(`{"id":"01b8dac5-bfb8-7b2f-9dd4-9df32405e8fe","type":"DueTimeReached","tenantId":"acme","aggregateId":"order-1","timestampMs":1893456003001,
		"payload":{"tenantId":"acme","serviceCallId":"order-1","dueAt":"2030-01-01T00:00:03.000Z","reachedAt":"2030-01-01T00:00:03.001Z"}}`)
	message, err := envelope.Decode(body)
	if err != nil {
		fmt.Println(err) // a timer.InvalidError
		return
	}
	switch event := message.Payload.(type) {
	case timer.DueTimeReached:
		fmt.Println(event.Key, "is due,", event.Lateness(), "late")
	default:
		fmt.Println("not for us:", message.Type)
	}
	// Output:
	// acme.order-1 is due, 1ms late
}
