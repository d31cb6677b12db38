package poller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

func TestFiresAtTheDueTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		dues := []time.Duration{0, time.Millisecond, 1234 * time.Millisecond, 5 * time.Second, time.Minute, 999 * time.Hour}
		for _, after := range dues {
			b.schedule(after.String(), after)
		}
		b.schedule("an hour late", -time.Hour)
		b.poll(poller.Options{Interval: time.Hour})
		b.fires(append([]time.Duration{0}, dues...)...)
	})
}

// TestNeverEarlyByAPartOfAMillisecond polls the store when the clock is within a millisecond of
// the due time, and when it is a whole one before.
func TestNeverEarlyByAPartOfAMillisecond(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: time.Hour})
		due := time.Duration(0)
		for _, before := range []time.Duration{time.Nanosecond, 500 * time.Microsecond, time.Millisecond} {
			due += time.Minute
			b.schedule(before.String()+"-due", due-before)
			b.schedule(before.String()+"-next", due)
			time.Sleep(due - before - time.Since(b.began))
			p.Sooner(b.began)
			for range 2 {
				if e := <-b.fired; time.Now().Before(e.DueAt) {
					b.Errorf("%s fired %v early", e.Key, time.Until(e.DueAt))
				}
			}
		}
	})
}

func TestWakesForSooner(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: time.Hour})
		synctest.Wait()
		for _, after := range []time.Duration{time.Minute, time.Second, 2 * time.Second} {
			b.schedule(after.String(), after)
			p.Sooner(b.began.Add(after))
		}
		b.fires(time.Second, 2*time.Second, time.Minute)
	})
}

// TestWhatIsCommittedDuringAPollIsOnTime: the poll has read the store before, and does not
// sleep yet.
func TestWhatIsCommittedDuringAPollIsOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		var commits atomic.Pointer[poller.Poller] // at the end of its next poll
		p := b.poll(poller.Options{Interval: 10 * time.Second, Polled: func(time.Duration, error) {
			if p := commits.Swap(nil); p != nil {
				b.schedule("1", 13*time.Second)
				p.Sooner(b.began.Add(13 * time.Second))
			}
		}})
		synctest.Wait()
		commits.Store(p)
		b.fires(13 * time.Second)
	})
}

// TestTransactionThatIsOpenDuringAPollIsOnTime: it has scheduled a timer that is due after the
// next poll, and commits between the two.
func TestTransactionThatIsOpenDuringAPollIsOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: 5 * time.Second})
		b.after(time.Second)
		p.Booked(b.began.Add(7 * time.Second))
		b.after(5 * time.Second)
		b.schedule("1", 7*time.Second)
		b.fires(7 * time.Second)
	})
}

// TestTransactionWhoseTimerIsOverdueIsOnTime: it is noticed when it commits.
func TestTransactionWhoseTimerIsOverdueIsOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: 5 * time.Second})
		b.after(time.Second)
		p.Booked(b.began.Add(-time.Hour))
		b.after(time.Second)
		b.schedule("1", -time.Hour)
		<-b.fired
		if at := time.Since(b.began); at > 2020*time.Millisecond {
			b.Errorf("fired after %v, want 2s", at)
		}
	})
}

// TestClockThatIsSetBackDelaysNoPoll announces a due time that is later than the end of the
// sleep, but sooner by the clock, which was set back meanwhile.
func TestClockThatIsSetBackDelaysNoPoll(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: 5 * time.Second})
		b.after(time.Second)
		b.set(-time.Hour)
		p.Sooner(b.Now().Add(30 * time.Minute))
		before := b.polls.Load()
		b.after(4*time.Second + time.Millisecond)
		if b.polls.Load() == before {
			b.Error("no poll at the interval")
		}
	})
}

// TestTimersThatAreCloseFireTogether has timers fire alone, within the precision after another one,
// and in more than a batch.
func TestTimersThatAreCloseFireTogether(t *testing.T) {
	inBubble(t, func(b *bench) {
		const precision = 5 * time.Millisecond
		for _, after := range []time.Duration{0, 1, 3, 5, 8, 100} {
			b.schedule(fmt.Sprint(int64(after)), time.Second+after*time.Millisecond)
		}
		b.poll(poller.Options{Batch: 10, Precision: precision})
		at := time.Second
		b.fires(at, at+precision, at+precision, at+precision, at+2*precision, at+100*time.Millisecond)
		b.due("acme", 25, 2*time.Second, 0)
		b.fires(slices.Repeat([]time.Duration{2 * time.Second}, 25)...)
	})
}

func TestOutageOfTheStoreLosesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.schedule("1", time.Minute)
		tries := 0
		b.decide = failing(func() bool { tries++; return time.Since(b.began) < 10*time.Minute })
		b.poll(poller.Options{})
		<-b.fired
		synctest.Wait()
		if late := time.Since(b.began) - 10*time.Minute; late > 5*time.Second || tries > 200 {
			b.Errorf("fired %v after the store was back, asked %d times", late, tries)
		}
	})
}

func TestIdlePollerOnlyReads(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.schedule("1", 24*time.Hour)
		ops := make(map[string]int)
		b.decide = func(op string) fault.Kind { ops[op]++; return fault.None }
		b.poll(poller.Options{})
		b.after(time.Hour)
		if ops["update"] > 0 || ops["next_due"] < 700 {
			b.Errorf("in an idle hour: %v", ops)
		}
	})
}

// A brokenStore is corrupt.
type brokenStore struct{ timer.Store }

func (brokenStore) NextDue(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, timer.ErrFatal
}

func TestFatalStoreEndsThePoller(t *testing.T) {
	inBubble(t, func(b *bench) {
		if err := poller.New(brokenStore{}, b, quiet, poller.Options{}).Run(b.Context()); !errors.Is(err, timer.ErrFatal) {
			b.Errorf("Run: %v, want ErrFatal", err)
		}
	})
}

// TestATimerThatCannotBeMarkedDelaysNoOtherTenant has a trigger of somebody's that refuses
// to change the timers of a tenant, or their events, until it is dropped.
func TestATimerThatCannotBeMarkedDelaysNoOtherTenant(t *testing.T) {
	for name, trigger := range map[string]string{
		"its row":   `CREATE TRIGGER host BEFORE UPDATE OF state ON timer_schedules WHEN NEW.tenant_id = 'refused' BEGIN SELECT RAISE(ABORT, 'not these'); END`,
		"its event": `CREATE TRIGGER host BEFORE INSERT ON timer_outbox WHEN CAST(NEW.payload AS TEXT) LIKE '%"refused"%' BEGIN SELECT RAISE(ABORT, 'not these'); END`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.due("refused", 100, 0, time.Second)
				b.due("a", 100, 300*time.Millisecond, time.Second)
				b.due("b", 100, 700*time.Millisecond, time.Second)
				_, err := b.store.DB().ExecContext(b.Context(), trigger)
				must(b, err)
				p := b.poll(poller.Options{Interval: 5 * time.Second})
				for range 200 {
					if e := <-b.fired; e.TenantID == "refused" || time.Since(e.DueAt) > time.Second {
						b.Fatalf("%s fired, %v late", e.Key, time.Since(e.DueAt))
					}
				}
				if err := p.Status().Err; err == nil || !strings.Contains(err.Error(), "tenant refused") || !strings.Contains(err.Error(), "not these") {
					b.Errorf("the status has the error %v", err)
				}
				_, err = b.store.DB().ExecContext(b.Context(), `DROP TRIGGER host`)
				must(b, err)
				if n := b.after(6 * time.Second); n != 100 {
					b.Errorf("%d of 100 fired within 6 s after the cure", n)
				}
				b.after(11 * time.Second)
				if err := p.Status().Err; err != nil {
					b.Errorf("after the cure: %v", err)
				}
			})
		})
	}
}

// TestNothingFiresBeforeItMay has timers due, one stored before and one meanwhile. Without
// leave the poller ends with its context.
func TestNothingFiresBeforeItMay(t *testing.T) {
	for name, comes := range map[string]bool{"in the end it may": true, "it never may": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				may := make(chan struct{})
				b.schedule("before", 0)
				var longest time.Duration
				p := b.poll(poller.Options{
					Await: func(ctx context.Context) bool {
						select {
						case <-may:
							return true
						case <-ctx.Done():
							return false
						}
					},
					Polled: func(took time.Duration, _ error) { longest = max(longest, took) },
				})
				b.after(time.Hour)
				b.schedule("meanwhile", time.Hour+time.Second)
				p.Sooner(b.began.Add(time.Hour + time.Second))
				if n := b.after(0); n != 0 {
					b.Errorf("%d fired before they might", n)
				}
				if !comes {
					return
				}
				close(may)
				b.fires(time.Hour, time.Hour+time.Second)
				synctest.Wait()
				if longest > time.Minute {
					b.Errorf("a poll took %v: the wait counts", longest)
				}
			})
		})
	}
}

// TestFullWayOutHoldsFiring has 30 timers due at one instant, of which the way
// out has room for 10 a minute.
func TestFullWayOutHoldsFiring(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.due("acme", 30, time.Second, 0)
		var room atomic.Int64
		b.poll(poller.Options{Batch: 10, Full: func() bool { return int64(len(b.fired)) >= room.Load() }})
		for want := range 4 {
			if got := b.after(time.Minute); got != 10*want {
				b.Errorf("%d fired in minute %d, want %d", got, want, 10*want)
			}
			room.Add(10)
			if got := b.after(100 * time.Millisecond); got != min(10*want+10, 30) { // and no longer
				b.Errorf("%d fired when there was room for %d", got, 10*want+10)
			}
		}
	})
}

// TestLongHoldIsTold has the way out full for a while, and later for longer.
func TestLongHoldIsTold(t *testing.T) {
	inBubble(t, func(b *bench) {
		var full atomic.Bool
		asked := 0
		p := b.poll(poller.Options{Full: func() bool { asked++; return full.Load() }})
		for hold, want := range map[time.Duration]int{9 * time.Second: 0, time.Hour: 2} {
			b.log.Take()
			full.Store(true)
			p.Sooner(time.Now())
			time.Sleep(hold)
			full.Store(false)
			b.after(time.Second)
			text := b.log.Take()
			if lines := strings.Count(text, "level=WARN") + strings.Count(text, "level=INFO"); lines != want {
				b.Errorf("%d lines after a hold of %v, want %d:\n%s", lines, hold, want, text)
			}
		}
		if asked > 50_000 {
			b.Errorf("asked %d times in an hour", asked)
		}
	})
}

// TestEventsCarryTheTraceOfTheirFiring has the first transaction fail after its events
// were traced: timers fire only by the commit.
func TestEventsCarryTheTraceOfTheirFiring(t *testing.T) {
	inBubble(t, func(b *bench) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		b.schedule("1", 0)
		var traced, committed atomic.Int64
		b.decide = failing(func() bool { return traced.Load() == 1 }, "emit")
		b.poll(poller.Options{Trace: func(_ context.Context, events []timer.DueTimeReached) func() {
			traced.Add(1)
			for i := range events {
				events[i].Trace.Parent = parent
			}
			return func() { committed.Add(1) }
		}})
		if e := <-b.fired; e.Trace.Parent != parent {
			b.Errorf("the event carries %q", e.Trace.Parent)
		}
		synctest.Wait()
		if got := fmt.Sprint(traced.Load(), committed.Load()); got != "2 1" {
			b.Errorf("traced and committed are %s transactions; want 2 and 1", got)
		}
	})
}
