package gochannel_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.(message.SubscribeInitializer).SubscribeInitialize("topic"); !errors.Is(err, gochannel.ErrClosed) {
		t.Errorf("SubscribeInitialize after Close: %v", err)
	}
}
