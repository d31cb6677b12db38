package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestCancellationsWaitForTheStore has timers canceled while the store is down,
// and due before it is up again.
func TestCancellationsWaitForTheStore(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		var down atomic.Bool
		b.serve(&fault.Store{Full: b.store, Decide: func(string) fault.Kind {
			if down.Load() {
				return fault.Before
			}
			return fault.None
		}}, app.Options{})
		const n = 5
		began := time.Now()
		for i := range n {
			b.schedule(fmt.Sprint("call-", i), began.Add(2*time.Minute))
		}
		synctest.Wait()
		down.Store(true)
		for i := range n {
			b.cancel(fmt.Sprint("call-", i))
		}
		time.Sleep(10 * time.Minute)
		down.Store(false)
		b.quietFor(time.Hour)
	})
}

// One message cancels what is there, whatever it is sent as, and says how much that was.
func TestAMessageCancelsManyTimers(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		counters := new(app.Counters)
		var seen []string
		var mu sync.Mutex
		watch := func(d handlers.Decision) {
			mu.Lock()
			defer mu.Unlock()
			if d.Type == envelope.TypeCancelTimers {
				seen = append(seen, string(d.ServiceCallID)+" "+d.Outcome)
			}
		}
		b.serve(b.store, app.Options{Counters: counters, Hooks: app.Hooks{Watch: func() func(handlers.Decision) { return watch }}})
		due := time.Now().Add(time.Hour)
		for _, call := range []string{"a-1", "a-2", "b-1", "c-1"} {
			b.schedule(call, due)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		for i, of := range []timer.Selection{{Prefix: "a-"}, {Calls: []timer.ServiceCallID{"b-1", "d-1"}}, {Prefix: "z"}} {
			c := timer.CancelTimers{TenantID: "acme", Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprint("many-", i)}, Of: of}
			b.publish(c.CommandID, envelope.CancelMany(c))
		}
		if e := b.next(); e.ServiceCallID != "c-1" {
			t.Errorf("%s fired", e.ServiceCallID)
		}
		b.quietFor(time.Hour)
		got := counters.Commands()
		for outcome, want := range map[string]int64{"canceled": 4, "none": 1} {
			if n := got[handlers.Result{Type: envelope.TypeCancelTimers, Outcome: outcome}]; n != want {
				t.Errorf("%d %s, want %d: %v", n, outcome, want, got)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(seen)
		if want := []string{"a-1 canceled", "a-2 canceled", "b-1 canceled", "d-1 canceled"}; !slices.Equal(seen, want) {
			t.Errorf("decisions %q, want %q", seen, want)
		}
	})
}

// cancel publishes a command, and returns when the broker has it.
func (b *bench) cancel(call string) {
	b.t.Helper()
	b.sent++
	c := timer.CancelTimer{
		Key:     keyOf(call),
		Version: timer.Version{TimestampMS: time.Now().UnixMilli() + 1, CommandID: fmt.Sprint("command-", b.sent)},
	}
	b.publish(c.CommandID, envelope.Cancel(c))
}

// An unsteady broker is away, or behind, as a test has it.
type unsteady struct {
	*simBroker
	away    atomic.Bool
	outages atomic.Int64
	checks  atomic.Int64 // calls of Interruptions
	asked   atomic.Int64 // calls of CatchUp
	catchUp func(context.Context) error
	fails   fault.Decide  // nil: nothing does
	delay   time.Duration // of each publish
}

func (b *unsteady) Interruptions() (int64, error) {
	b.checks.Add(1)
	if b.away.Load() {
		return b.outages.Load(), broker.ErrUnavailable
	}
	return b.outages.Load(), nil
}

func (b *unsteady) CatchUp(ctx context.Context, _ string) error {
	b.asked.Add(1)
	if b.catchUp == nil {
		return nil
	}
	return b.catchUp(ctx)
}

// onUnsteady runs the app on an unsteady broker, with a timer that is due, in a bubble.
func onUnsteady(t *testing.T, b *unsteady, opt app.Options, test func(t *testing.T, log *logbuf.Buffer, s *sqlite.Store, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		put(t, s, "acme", time.Now(), "call-1")
		b.simBroker = newSimBroker(1, b.fails)
		b.simBroker.delay = b.delay
		log := new(logbuf.Buffer)
		a, err := app.New(s, b, slog.New(slog.NewTextHandler(log, nil)), opt)
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, "app", a.Run)
		defer stop()
		<-a.Running()
		test(t, log, s, stop)
	})
}

// put stores timers of a tenant that are due at a time.
func put(t *testing.T, s timer.Commands, tenant timer.TenantID, due time.Time, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = timer.ScheduleTimer{
			Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: timer.Version{TimestampMS: 1, CommandID: "c-" + string(call)}, DueAt: due,
		}
	}
	if _, err := s.Schedule(t.Context(), time.Now(), commands...); err != nil {
		t.Fatal(err)
	}
}

// calls returns the names of some service calls.
func calls(n int) []timer.ServiceCallID {
	all := make([]timer.ServiceCallID, n)
	for i := range all {
		all[i] = timer.ServiceCallID(name("call-", i))
	}
	return all
}

// reached returns how many timers have fired after a while.
func reached(t *testing.T, s *sqlite.Store, after time.Duration) int64 {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	stats, err := s.Stats(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return stats.Reached
}

func TestNothingFiresWhileTheBrokerIsAway(t *testing.T) {
	longtest.NotShort(t)
	b := new(unsteady)
	b.away.Store(true)
	onUnsteady(t, b, app.Options{}, func(t *testing.T, log *logbuf.Buffer, s *sqlite.Store, _ func()) {
		if n := reached(t, s, time.Hour); n != 0 {
			t.Errorf("%d fired while the broker was away", n)
		}
		if n := b.checks.Load(); n > 25*3600 {
			t.Errorf("checked %d times in an hour", n)
		}
		b.away.Store(false)
		if n := reached(t, s, 100*time.Millisecond); n != 1 {
			t.Errorf("%d fired when the broker was there, want 1", n)
		}
		if n := strings.Count(log.String(), "timers fire"); n != 1 {
			t.Errorf("%d lines, want 1:\n%s", n, log)
		}
	})
}

func TestABrokerThatCannotTellHoldsNothingBack(t *testing.T) {
	b := &unsteady{catchUp: func(context.Context) error { return errors.ErrUnsupported }}
	onUnsteady(t, b, app.Options{}, func(t *testing.T, _ *logbuf.Buffer, s *sqlite.Store, _ func()) {
		if n := reached(t, s, 0); n != 1 {
			t.Errorf("%d fired, want 1", n)
		}
	})
}

func TestCatchUpTakesNoLongerThanItsTimeout(t *testing.T) {
	b := &unsteady{catchUp: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	onUnsteady(t, b, app.Options{CatchUpTimeout: 3 * time.Second}, func(t *testing.T, log *logbuf.Buffer, s *sqlite.Store, _ func()) {
		for round := range int64(2) {
			if n := reached(t, s, 2900*time.Millisecond); n != round {
				t.Errorf("%d fired before the timeout, want %d", n, round)
			}
			if n := reached(t, s, 100*time.Millisecond); n != round+1 {
				t.Errorf("%d fired after the timeout, want %d", n, round+1)
			}
			if n := strings.Count(log.String(), "before all commands"); n != int(round)+1 {
				t.Errorf("%d warnings:\n%s", n, log)
			}
			b.outages.Add(1) // which is over already
			put(t, s, "acme", time.Now(), "again")
			time.Sleep(5 * time.Second) // until the next poll
		}
	})
}
