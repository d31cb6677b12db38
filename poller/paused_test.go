package poller_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

func (b *bench) pause(tenant timer.TenantID, until time.Time) timer.Pause {
	b.Helper()
	p := timer.Pause{TenantID: tenant, Since: time.Now().UTC(), Until: until, By: "ops"}
	must(b, b.store.Decide(b.Context(), timer.Decision{TenantID: tenant, Kind: timer.DecidedFiring, Pause: p, At: p.Since}))
	return p
}

func (b *bench) resume(tenant timer.TenantID) {
	b.Helper()
	must(b, b.store.Decide(b.Context(), timer.Decision{TenantID: tenant, Kind: timer.DecidedFiring, At: time.Now()}))
}

// TestNothingFiresWhilePaused, and all of it when firing is resumed, at once where the
// poller is notified.
func TestNothingFiresWhilePaused(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: time.Hour, Paused: b.store.Firing})
		synctest.Wait()
		b.due("acme", 10, time.Minute, time.Minute)
		pause := b.pause("", time.Time{})
		p.Refresh()
		if n := b.after(time.Hour); n != 0 || p.Status().Paused[""] != pause || p.Status().Overdue != 0 {
			b.Errorf("paused: %d fired, %+v", n, p.Status())
		}
		b.resume("")
		p.Refresh()
		for range 10 {
			e := <-b.fired
			if at := time.Since(b.began); at != time.Hour || e.Lateness() != b.began.Add(time.Hour).Sub(e.DueAt) {
				b.Errorf("%s fired after %v, %v late", e.Key, at, e.Lateness())
			}
		}
		synctest.Wait()
		if len(p.Status().Paused) > 0 {
			b.Errorf("resumed: %+v", p.Status())
		}
	})
}

// TestAPauseOfAnotherInstanceHoldsWithinASecond, and ends within one, of all tenants and of
// one: the other tenant fires on.
func TestAPauseOfAnotherInstanceHoldsWithinASecond(t *testing.T) {
	for _, paused := range []timer.TenantID{"", "acme"} {
		t.Run(fmt.Sprintf("of %q", paused), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.due("acme", 400, 0, 50*time.Millisecond)
				b.due("other", 400, 0, 50*time.Millisecond)
				of := make(map[timer.TenantID]int)
				count := func(after time.Duration) map[timer.TenantID]int {
					for range b.after(after) {
						of[(<-b.fired).TenantID]++
					}
					return of
				}
				p := b.poll(poller.Options{Paused: b.store.Firing})
				count(10 * time.Second)
				b.pause(paused, time.Time{})
				count(time.Second)
				acme, other := of["acme"], of["other"]
				p.Sooner(time.Now()) // does not wake it
				count(time.Minute)
				if acme < 200 || acme > 220 || of["acme"] != acme || paused == "" && of["other"] != other || paused != "" && of["other"] != 400 {
					b.Errorf("fired: %v, of acme %d until it was paused", of, acme)
				}
				b.resume(paused)
				if count(time.Second + time.Millisecond); of["acme"] != 400 || of["other"] != 400 {
					b.Errorf("a second after it was resumed: %v", of)
				}
			})
		})
	}
}

// TestAPauseHoldsAfterTheBatchUnderWay, though a poller that fires one batch after the other
// reads the pauses twice a second only.
func TestAPauseHoldsAfterTheBatchUnderWay(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.due("acme", 400, 0, 0)
		var p *poller.Poller
		ready, reads, fired := make(chan struct{}), 0, 0
		p = b.poll(poller.Options{
			Batch: 20,
			Paused: func(ctx context.Context, now time.Time) (timer.Pauses, error) {
				<-ready
				reads++
				return b.store.Firing(ctx, now)
			},
			Reached: func(events []timer.DueTimeReached) {
				if fired += len(events); fired == 60 {
					b.pause("", time.Time{})
					p.Refresh()
				}
			},
		})
		close(ready)
		if n := b.after(100 * time.Millisecond); n != 60 || reads != 2 {
			b.Errorf("%d fired, with %d reads of the pauses", n, reads)
		}
	})
}

// TestAPauseHoldsFromTheStartOn: it outlives the instance that was asked, and is also read
// after the poller has waited for leave to fire.
func TestAPauseHoldsFromTheStartOn(t *testing.T) {
	for name, waits := range map[string]time.Duration{"at once": 0, "after a wait": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.schedule("1", 0)
				time.AfterFunc(waits/2, func() { b.pause("", time.Time{}) })
				synctest.Wait()
				b.poll(poller.Options{Paused: b.store.Firing, Await: func(ctx context.Context) bool {
					time.Sleep(waits - time.Since(b.began))
					return ctx.Err() == nil
				}})
				b.holds("while paused")
			})
		})
	}
}

// TestAPauseThatCanNotBeReadFiresNothing, and is a failed poll.
func TestAPauseThatCanNotBeReadFiresNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.schedule("1", 0)
		var fails atomic.Bool
		fails.Store(true)
		down := &fault.Store{Full: b.store, Decide: failing(fails.Load, "firing")}
		p := b.poll(poller.Options{Paused: down.Timers().Firing})
		b.holds("though it is not known whether they are paused")
		if err := p.Status().Err; !errors.Is(err, fault.ErrInjected) {
			b.Errorf("the status has the error %v", err)
		}
		fails.Store(false)
		<-b.fired
	})
}

// TestAPauseEndsAtItsTime, of all and of a tenant, without anybody who resumes.
func TestAPauseEndsAtItsTime(t *testing.T) {
	for _, tenant := range []timer.TenantID{"", "acme"} {
		t.Run(fmt.Sprintf("of %q", tenant), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.schedule("1", time.Second)
				until := b.began.Add(10*time.Minute + 123*time.Millisecond)
				b.pause(tenant, until)
				b.poll(poller.Options{Interval: time.Hour, Paused: b.store.Firing})
				if e := <-b.fired; !e.ReachedAt.Equal(timer.RoundUp(until)) {
					b.Errorf("fired at %v, want %v", e.ReachedAt, until)
				}
			})
		})
	}
}

// TestAPausedTenantDelaysNobody has a tenant with far more due than a batch holds, and
// one whose timers are due now and then, and the poller looks once a second beyond that.
// Resumed, it fires in the order of the due times.
func TestAPausedTenantDelaysNobody(t *testing.T) {
	inBubble(t, func(b *bench) {
		const paused, others = 300, 29
		b.due("paused", paused, 0, time.Millisecond)
		b.due("other", others, 3*time.Millisecond, 710*time.Millisecond)
		b.pause("paused", time.Time{})
		p := b.poll(poller.Options{Interval: time.Hour, Batch: 20, Paused: b.store.Firing})
		for range others {
			if e := <-b.fired; e.TenantID != "other" || e.Lateness() > 10*time.Millisecond {
				b.Errorf("%s fired %v late", e.Key, e.Lateness())
			}
		}
		synctest.Wait()
		before, at := b.polls.Load(), time.Now()
		b.holds("while paused")
		if n := b.polls.Load() - before; before > 100+3*others || n > 61 {
			b.Errorf("looked %d times for %d timers, and %d times in a minute", before, others, n)
		}
		if cleared := p.Status().Cleared; cleared.Before(at) {
			b.Errorf("all others had fired at %v, want a second ago", cleared)
		}
		b.resume("paused")
		p.Refresh()
		last := time.Time{}
		for i := range paused {
			e := <-b.fired
			if i%20 == 0 && e.DueAt.Before(last) { // a batch comes in any order
				b.Errorf("%s fired after one that was due at %v", e.Key, last)
			}
			if e.DueAt.After(last) {
				last = e.DueAt
			}
		}
	})
}
