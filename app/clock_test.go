package app_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A rightBroker knows the right time.
type rightBroker struct{ broker.Broker }

func (rightBroker) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// TestClockThatIsBehindRefusesNothing starts a service whose clock is more than a day behind
// that of the broker, and of producers. What they send comes into effect when someone has set
// the clock.
func TestClockThatIsBehindRefusesNothing(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		var behind atomic.Int64
		behind.Store(int64(25 * time.Hour))
		b.broker = rightBroker{b.broker}
		a := b.serve(b.store, app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) })})
		reports := func(want bool) {
			t.Helper()
			for _, c := range a.Checks(t.Context()) {
				if c.Part == "clock" && (c.Red != want || want != strings.Contains(c.Reason, "is behind")) {
					t.Errorf("behind by %v: %+v", time.Duration(behind.Load()), c)
				}
			}
		}
		reports(true)
		b.schedule("call", time.Now().Add(time.Second))
		b.quietFor(time.Minute)
		behind.Store(0)
		if e := b.next(); e.ServiceCallID != "call" {
			t.Errorf("got %v", e)
		}
		b.quietFor(time.Minute)
		reports(false)
	})
}
