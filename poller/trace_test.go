package poller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// TestEventsCarryTheTraceOfTheirFiring has the first transaction fail after its events
// were traced: what is not committed has not fired.
func TestEventsCarryTheTraceOfTheirFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s := open(t)
		schedule(t, s, "1", time.Now())
		var traced, committed atomic.Int64
		failing := &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if op == "emit" && traced.Load() == 1 {
				return fault.Before
			}
			return fault.None
		}}
		_, fired := poll(t, failing, realClock, poller.Options{Trace: func(_ context.Context, events []timer.DueTimeReached) func() {
			traced.Add(1)
			for i := range events {
				events[i].Trace.Parent = parent
			}
			return func() { committed.Add(1) }
		}})
		if e := <-fired; e.Trace.Parent != parent {
			t.Errorf("the event carries %q", e.Trace.Parent)
		}
		synctest.Wait()
		if traced.Load() != 2 || committed.Load() != 1 {
			t.Errorf("traced %d transactions, %d of them committed; want 2 and 1", traced.Load(), committed.Load())
		}
	})
}
