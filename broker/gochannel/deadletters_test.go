package gochannel_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker/gochannel"
)

func TestOldestDeadLettersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{Letters: 3})
		for i := range 5 {
			letter := message.NewMessage(fmt.Sprint(i), []byte{byte(i)})
			if err := b.Publisher().Publish(b.Routing().DeadLettersOf("acme"), letter); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.Forgotten(); n != 2 {
			t.Errorf("%d were forgotten, want 2", n)
		}
		for range 2 {
			var seen []string
			if err := b.VisitDeadLetters(t.Context(), "", func(letter *message.Message) (bool, error) {
				seen = append(seen, fmt.Sprint(letter.UUID, letter.Payload))
				letter.Payload[0] = 99 // changes nothing for others
				return false, nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"2[2]", "3[3]", "4[4]"}, seen); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		}
	})
}
