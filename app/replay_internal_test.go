package app

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// TestADeadLetterMayHaveAnotherClock than its command: that of another broker, or of a producer, on
// topics of Kafka with CreateTime. One from long before is of an earlier log of the same name.
func TestADeadLetterMayHaveAnotherClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	command := broker.Stored{Message: message.NewMessage("id", nil), At: at}
	command.Message.Metadata = message.Metadata{broker.MetaTopic: "timer.commands", broker.MetaPosition: "1-7"}
	for letter, want := range map[time.Time]bool{at: true, at.Add(time.Hour): true, at.Add(-2 * time.Second): true, at.Add(-time.Minute): false} {
		m := marks{dead: map[place]time.Time{{"timer.commands", "1-7"}: letter}}
		if got := m.isDead(command); got != want {
			t.Errorf("a dead letter %v after its command: %t, want %t", letter.Sub(at), got, want)
		}
	}
}
