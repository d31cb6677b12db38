package gochannel_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = brokertest.Must

var features = brokertest.Features{Positions: true, FakeTime: true, AllTenants: true}

func open(testing.TB) brokertest.Server {
	b := gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler))
	return brokertest.Server{Broker: func() broker.Broker { return b }}
}

func TestContract(t *testing.T) { brokertest.Run(t, features, open) }

func TestWatermill(t *testing.T) { brokertest.Watermill(t, features, open) }

func BenchmarkBroker(b *testing.B) { brokertest.Bench(b, features, open) }

// TestSubscriberThatIsClosedKeepsNoMessages, which nobody would ever take.
func TestSubscriberThatIsClosedKeepsNoMessages(t *testing.T) {
	t.Parallel()
	s := open(t).Broker().Subscriber("role")
	must(t, s.Close())
	if err := s.(message.SubscribeInitializer).SubscribeInitialize("topic"); !errors.Is(err, gochannel.ErrClosed) {
		t.Errorf("SubscribeInitialize after Close: %v", err)
	}
}

func TestOldestDeadLettersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{DeadLetters: 3})
		for i := range 5 {
			deadLetter := message.NewMessage(fmt.Sprint(i), []byte{byte(i)})
			must(t, broker.NewWatermillPublisher(b.Publisher()).Publish(b.Routing().DeadLettersOf("acme"), deadLetter))
		}
		for range 2 {
			var seen []string
			must(t, b.VisitDeadLetters(t.Context(), "", "", broker.EachDeadLetter(t.Context(), func(deadLetter *message.Message) (bool, error) {
				seen = append(seen, fmt.Sprint(deadLetter.UUID, deadLetter.Payload))
				deadLetter.Payload[0] = 99 // changes nothing for others
				return false, nil
			})))
			if diff := cmp.Diff([]string{"2[2]", "3[3]", "4[4]"}, seen); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		}
	})
}
