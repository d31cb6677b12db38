package timertest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// A shop is the code under test: it cancels orders that are not paid within three
// hours.
type shop struct {
	timers *client.Client

	mu       sync.Mutex
	canceled []timer.ServiceCallID
}

func (s *shop) order(ctx context.Context, id timer.ServiceCallID) error {
	_, err := s.timers.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: id, After: 3 * time.Hour})
	return err
}

func (s *shop) unpaid(_ context.Context, e timer.DueTimeReached) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled = append(s.canceled, e.ServiceCallID)
	return nil
}

func (s *shop) run(ctx context.Context, b broker.Broker) error {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	client.OnDue(router, b.Subscriber("shop"), s.unpaid, client.OnDueOptions{Topic: b.Routing().EventsOf("acme")})
	return router.Run(ctx)
}

// TestOrderIsCanceledOnce waits three hours, in which the timer service crashes and the
// broker is down for a minute.
func TestOrderIsCanceledOnce(t *testing.T) {
	t.Parallel()
	for name, options := range brokers {
		t.Run(name, func(t *testing.T) {
			if name == "NATS" && testing.Short() {
				t.Skip("SKIPPED: a NATS server works for each second of a bubble")
			}
			t.Parallel()
			began := time.Now()
			cancelsOnce(t, options...)
			t.Logf("%v of real time", time.Since(began))
		})
	}
}

func cancelsOnce(t *testing.T, options ...timertest.Option) {
	synctest.Test(t, func(t *testing.T) {
		svc := timertest.Start(t, options...)
		shop := &shop{timers: svc.Client()}
		go shop.run(t.Context(), svc.Broker())
		synctest.Wait() // it has subscribed

		if err := shop.order(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		svc.AwaitIdle() // the timer is stored
		time.Sleep(time.Hour)
		svc.Crash()
		time.Sleep(time.Hour)
		svc.Restart()
		time.Sleep(59*time.Minute + 30*time.Second)
		svc.BrokerDown(time.Minute) // while the timer is due
		time.Sleep(45 * time.Second)
		if n := len(svc.Fired("acme")); n != 0 {
			t.Errorf("%d events while the broker was down", n)
		}
		svc.AwaitIdle()

		if len(shop.canceled) != 1 || shop.canceled[0] != "order-1" {
			t.Errorf("canceled %v, want order-1 once", shop.canceled)
		}
		if fired := svc.Fired("acme"); len(fired) != 1 || len(svc.Due()) != 0 {
			t.Errorf("%d events, want 1", len(fired))
		}
	})
}
