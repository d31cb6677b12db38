package gochannel_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

func TestOldestDeadLettersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{DeadLetters: 3})
		for i := range 5 {
			deadLetter := message.NewMessage(fmt.Sprint(i), []byte{byte(i)})
			if err := broker.NewWatermillPublisher(b.Publisher()).Publish(b.Routing().DeadLettersOf("acme"), deadLetter); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			var seen []string
			if err := b.VisitDeadLetters(t.Context(), "", "", broker.EachDeadLetter(t.Context(), func(deadLetter *message.Message) (bool, error) {
				seen = append(seen, fmt.Sprint(deadLetter.UUID, deadLetter.Payload))
				deadLetter.Payload[0] = 99 // changes nothing for others
				return false, nil
			})); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"2[2]", "3[3]", "4[4]"}, seen); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		}
	})
}
