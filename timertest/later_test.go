package timertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// A clinic is closed for a time after the first call.
type clinic struct {
	closed time.Duration
	calls  []time.Time
}

func (c *clinic) remind(context.Context, timer.DueTimeReached) error {
	c.calls = append(c.calls, time.Now())
	if len(c.calls) == 1 {
		return fmt.Errorf("closed: %w", timer.Later(c.closed))
	}
	return nil
}

// TestAnEventThatIsWantedLaterWaitsThroughACrash has the service idle meanwhile.
func TestAnEventThatIsWantedLaterWaitsThroughACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clinic{closed: 10 * time.Hour}
		svc := timertest.Start(t, timertest.OnDue("", c.remind, app.OnDueOptions{}))
		svc.Schedule(client.Timer{TenantID: "acme", ServiceCallID: "call-1", After: time.Hour})
		time.Sleep(time.Hour)
		svc.AwaitIdle()
		svc.Crash()
		svc.Restart()
		time.Sleep(9 * time.Hour)
		svc.AwaitIdle()
		if len(c.calls) != 1 {
			t.Fatalf("called at %v", c.calls)
		}
		time.Sleep(time.Until(c.calls[0].Add(10 * time.Hour)))
		svc.AwaitIdle()
		if len(c.calls) != 2 || c.calls[1].Sub(c.calls[0]) > 10*time.Hour+time.Second {
			t.Errorf("called at %v, want 10 h apart", c.calls)
		}
	})
}

// TestAConsumerHasItsEventLater over the broker that can keep it until then.
func TestAConsumerHasItsEventLater(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: a NATS server works for each second of a bubble")
	}
	synctest.Test(t, func(t *testing.T) {
		svc := timertest.Start(t, timertest.NATS())
		c := clinic{closed: time.Hour}
		var failed []error
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		router.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				out, err := next(msg)
				failed = append(failed, err)
				return out, err
			}
		})
		b := svc.Broker()
		client.OnDue(router, b.Subscriber("clinic"), c.remind, client.OnDueOptions{Topic: b.Routing().EventsOf("acme")})
		go router.Run(t.Context())
		synctest.Wait()
		svc.Schedule(client.Timer{TenantID: "acme", ServiceCallID: "call-1", After: time.Minute})
		time.Sleep(time.Hour + 5*time.Minute)
		if len(c.calls) != 2 || c.calls[1].Sub(c.calls[0]) < time.Hour || c.calls[1].Sub(c.calls[0]) > time.Hour+time.Second {
			t.Errorf("called at %v, want an hour apart", c.calls)
		}
		if slices.ContainsFunc(failed, func(err error) bool { return err != nil }) {
			t.Errorf("the middleware saw %v", failed)
		}
	})
}
