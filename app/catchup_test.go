package app_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// An unsteadyBroker is away, or behind, as a test has it.
type unsteadyBroker struct {
	*simBroker
	away    atomic.Bool
	outages atomic.Int64
	checks  atomic.Int64                // calls of Interruptions
	asked   atomic.Int64                // calls of CatchUp
	catchUp func(context.Context) error // nil: nothing waits
}

func (b *unsteadyBroker) Interruptions() (int64, error) {
	b.checks.Add(1)
	if b.away.Load() {
		return b.outages.Load(), broker.ErrUnavailable
	}
	return b.outages.Load(), nil
}

func (b *unsteadyBroker) CatchUp(ctx context.Context, _ string) error {
	b.asked.Add(1)
	if b.catchUp == nil {
		return nil
	}
	return b.catchUp(ctx)
}

// onUnsteady runs a test on an unsteady broker, whose calls fail as fails says, and with a
// timer that is due.
func onUnsteady(t *testing.T, fails fault.Decide, test func(b *bench, to *unsteadyBroker)) {
	t.Helper()
	inBubble(t, func(b *bench) {
		to := &unsteadyBroker{simBroker: newSimBroker(1, fails)}
		b.broker = to
		put(b, b.store, "acme", time.Now(), "call-1")
		test(b, to)
	})
}

// reached returns how many timers have fired after a while.
func (b *bench) reached(after time.Duration) int64 {
	b.Helper()
	time.Sleep(after)
	synctest.Wait()
	return b.stats().Reached
}

func TestNothingFiresWhileTheBrokerIsAway(t *testing.T) {
	longtest.NotShort(t)
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		to.away.Store(true)
		b.serve(app.Options{})
		if n := b.reached(time.Hour); n != 0 {
			b.Errorf("%d fired while the broker was away", n)
		}
		if n := to.checks.Load(); n > 25*3600 {
			b.Errorf("checked %d times in an hour", n)
		}
		to.away.Store(false)
		if n := b.reached(100 * time.Millisecond); n != 1 {
			b.Errorf("%d fired when the broker was there, want 1", n)
		}
		if n := strings.Count(b.log.String(), "timers fire"); n != 1 {
			b.Errorf("%d lines, want 1:\n%s", n, &b.log)
		}
	})
}

// TestCatchUpTakesNoLongerThanItsTimeout, at the start and after an outage.
func TestCatchUpTakesNoLongerThanItsTimeout(t *testing.T) {
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		to.catchUp = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		b.serve(app.Options{CatchUpTimeout: 3 * time.Second})
		for round := range int64(2) {
			if n := b.reached(2900 * time.Millisecond); n != round {
				b.Errorf("%d fired before the timeout, want %d", n, round)
			}
			if n := b.reached(100 * time.Millisecond); n != round+1 {
				b.Errorf("%d fired after the timeout, want %d", n, round+1)
			}
			if n := strings.Count(b.log.String(), "before all commands"); n != int(round)+1 {
				b.Errorf("%d warnings:\n%s", n, &b.log)
			}
			to.outages.Add(1) // which is over already
			put(b, b.store, "acme", time.Now(), "again")
			time.Sleep(5 * time.Second) // until the next poll
		}
	})
}

// TestFailuresThatNeverEndHoldBackNothing has the store fail once whenever the backlog is read.
func TestFailuresThatNeverEndHoldBackNothing(t *testing.T) {
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		to.catchUp = func(context.Context) error {
			b.schedule(name("waits-", b.sent), time.Now().Add(time.Hour))
			time.Sleep(4 * time.Second)
			return nil
		}
		var failed atomic.Bool
		b.run(b.app(&fault.Store{Full: b.store, Decide: func(op string) fault.Kind {
			if op == "schedule" && !failed.Swap(!failed.Load()) {
				return fault.Before
			}
			return fault.None
		}}, app.Options{}))
		if n := b.reached(11 * time.Second); n != 0 {
			b.Errorf("%d fired while the backlog was read", n)
		}
		if n := b.reached(2 * time.Second); n != 1 {
			b.Errorf("%d fired, want 1", n)
		}
	})
}

// TestCatchesUpAfterEachReason has a broker that was away for a moment, polls that fail, and
// a process that was stopped between two polls, as by SIGSTOP.
func TestCatchesUpAfterEachReason(t *testing.T) {
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		var down, stopped atomic.Bool
		b.run(b.app(&fault.Store{Full: b.store, Decide: while(&down, "next_due", "update")}, app.Options{Hooks: []app.Hooks{{Polled: func(time.Duration, error) {
			if stopped.Swap(false) {
				time.Sleep(8 * time.Second)
			}
		}}}}))
		for _, step := range []struct {
			what  string
			do    func()
			wants bool
		}{
			{"the start", func() {}, true},
			{"nothing happened", func() { time.Sleep(time.Minute) }, false},
			{"the broker was away", func() { to.outages.Add(1) }, true},
			{"a poll failed", func() { down.Store(true); time.Sleep(10 * time.Second); down.Store(false) }, true},
			{"the process was stopped", func() { stopped.Store(true) }, true},
			{"nothing happened since", func() {}, false},
		} {
			step.do()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if got := to.asked.Swap(0) > 0; got != step.wants {
				b.Errorf("%s: caught up: %v, want %v", step.what, got, step.wants)
			}
		}
	})
}

// TestStopForwardsWhatIsReached stops the app while the broker accepts no events.
func TestStopForwardsWhatIsReached(t *testing.T) {
	for name, c := range map[string]struct {
		outage time.Duration // of publishes, from the stop on
		outbox int64         // events in the outbox after the stop
	}{
		"the broker comes back within the limit": {3 * time.Second, 0},
		"the broker stays away":                  {time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			down.Store(true)
			onUnsteady(t, while(&down, "publish"), func(b *bench, _ *unsteadyBroker) {
				_, stop := b.serve(app.Options{DrainTimeout: 10 * time.Second})
				if n := b.reached(100 * time.Millisecond); n != 1 {
					b.Fatalf("%d fired, want 1", n)
				}
				began := time.Now()
				time.AfterFunc(c.outage, func() { down.Store(false) })
				stop()
				if took := time.Since(began); took > 15*time.Second {
					b.Errorf("the stop took %v", took)
				}
				if n := b.stats().Outbox; n != c.outbox {
					b.Errorf("%d in the outbox, want %d", n, c.outbox)
				}
			})
		})
	}
}

// TestLateEventsAreCounted has a broker that needs a while for each batch.
func TestLateEventsAreCounted(t *testing.T) {
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		counters := new(app.Counters)
		b.serve(app.Options{Counters: counters, PollingInterval: time.Hour})
		due := time.Now().Add(time.Second)
		for i, late := range []time.Duration{time.Millisecond, 15 * time.Millisecond, time.Second, 2500 * time.Millisecond} {
			due = due.Add(time.Minute)
			to.delay = late
			b.send(timer.ScheduleTimer{Key: keyOf(name("late-", i)), DueAt: due, CorrelationID: name("request-", i)})
			b.wait(time.Until(due.Add(10 * time.Second)))
		}
		got := counters.Lateness()
		for share, want := range map[float64]time.Duration{0: time.Millisecond, 0.4: time.Millisecond, 0.5: 20 * time.Millisecond, 0.8: time.Second, 0.9: 2500 * time.Millisecond, 1: 2500 * time.Millisecond} {
			if q := got.Quantile(share); q != want {
				b.Errorf("quantile %v is %v, want %v", share, q, want)
			}
		}
		if first, again := counters.TakeWorst(), counters.TakeWorst(); got.Max != first || got.Events != 5 || got.Sum != first+time.Second+16*time.Millisecond || again != 0 || counters.Forwarded() != 5 {
			b.Errorf("%+v, the worst %v and then %v, of %d", got, first, again, counters.Forwarded())
		}
		if q := (app.Lateness{}).Quantile(0.99); q != 0 || len(app.LatenessBounds()) != len(got.Buckets)-1 {
			b.Errorf("the quantile of nothing is %v, %d bounds", q, len(app.LatenessBounds()))
		}
	})
}

// TestSlowBrokerDelaysNoOtherTenant has a tenant with many timers due at one instant,
// a broker that needs a second for each batch, and a small tenant whose timer is
// due later. Its event must not wait for all events of the other tenant.
func TestSlowBrokerDelaysNoOtherTenant(t *testing.T) {
	longtest.NotShort(t)
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		to.delay = time.Second
		b.serve(app.Options{})
		due := time.Now().Add(time.Minute)
		put(b, b.store, "great", due, calls(20_000)...)
		put(b, b.store, "small", due.Add(3*time.Second), "call")
		waited := int64(0)
		for s := b.stats(); s.Scheduled+s.Outbox > 0; s = b.stats() {
			waited = max(waited, s.Outbox)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if waited > 4000 || time.Since(due) > time.Hour {
			b.Errorf("%d events were in the outbox at a time, all had gone %v after the due time", waited, time.Since(due))
		}
		events, _ := to.publishedSince(0, 0)
		for _, e := range events {
			if late := e.at.Sub(due.Add(3 * time.Second)); e.msg.Metadata.Get(envelope.HeaderTenantID) == "small" && late > 5*time.Second {
				b.Errorf("the event of the small tenant came %v late", late)
			}
		}
	})
}

// A shardedStore is one whose outbox instances could share: it has one shard,
// which this instance owns when it is free.
type shardedStore struct {
	*sqlite.Store
	free chan struct{} // closed when the shard can be owned
	lost chan struct{} // closed when the first lease of it is lost; nil is never
}

// Outbox returns the shard.
func (s *shardedStore) Outbox() outbox.Outbox { return outbox.Outbox{Shards: s} }

func (s *shardedStore) Own(context.Context, outbox.Receivers) (outbox.Lease, error) {
	select {
	case <-s.free:
		return s, nil
	default:
		return nil, errors.New("another instance has it")
	}
}

func (s *shardedStore) TakeOver(context.Context) (outbox.Lease, error) { return nil, nil } //nolint:nilnil // as the port has it

func (s *shardedStore) Shard() int { return 0 }

// Lost is closed for one lease: it is nil for the next.
func (s *shardedStore) Lost() <-chan struct{} {
	lost := s.lost
	s.lost = nil
	return lost
}

func (s *shardedStore) Release() {}

// TestNothingFiresBeforeAShardIsOwned: the event would go to a shard of another instance,
// which does not learn of it, and another one may recover the database. Nor is a command
// taken. A stop does not wait for a shard.
func TestNothingFiresBeforeAShardIsOwned(t *testing.T) {
	onUnsteady(t, nil, func(b *bench, to *unsteadyBroker) {
		s := &shardedStore{Store: b.store, free: make(chan struct{})}
		b.schedule("call", time.Now())
		for _, want := range []timer.Counts{{Scheduled: 1}, {Reached: 2}} {
			if want.Reached > 0 {
				close(s.free)
			}
			stop := b.run(b.app(s, app.Options{}))
			time.Sleep(time.Minute)
			if got := b.stats().Counts; got != want {
				b.Errorf("%+v, want %+v", got, want)
			}
			began := time.Now()
			stop()
			if took := time.Since(began); took > time.Second {
				b.Errorf("the stop took %v", took)
			}
		}
		if events, _ := to.publishedSince(0, 0); len(events) != 2 {
			b.Errorf("%d events, want 2", len(events))
		}
	})
}
