package app_test

import (
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Beginnings of service call ids whose events the broker does not like.
const (
	refusedPrefix = "refused-" // it accepts none of them
	flakyPrefix   = "flaky-"   // it accepts them at the third try
)

// refused reports whether the broker accepts no event of a timer.
func refused(key timer.Key) bool { return strings.HasPrefix(string(key.ServiceCallID), refusedPrefix) }

// refusal returns what such a broker refuses.
func refusal() func(event *message.Message) bool {
	tries := make(map[string]int)
	return func(event *message.Message) bool {
		call := event.Metadata.Get(envelope.HeaderServiceCallID)
		if strings.HasPrefix(call, flakyPrefix) {
			tries[event.UUID]++
			return tries[event.UUID] <= 2
		}
		return strings.HasPrefix(call, refusedPrefix)
	}
}
