package poller_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
)

// TestStatusSaysHowThePollerIs takes a poller through all that may be wrong with it.
func TestStatusSaysHowThePollerIs(t *testing.T) {
	inBubble(t, func(b *bench) {
		var fails, hangs, full, hold atomic.Bool
		end := make(chan struct{})
		defer close(end)
		b.decide = func(op string) fault.Kind {
			if hangs.Load() {
				<-end
			}
			return failing(fails.Load)(op)
		}
		p := b.poll(poller.Options{
			Interval: 5 * time.Second,
			Full:     full.Load,
			Await: func(ctx context.Context) bool {
				for hold.Load() && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				return ctx.Err() == nil
			},
			Reference: rightTime,
		})
		for _, c := range []struct {
			when  string
			do    func()
			after time.Duration
			is    func(s poller.Status) bool
		}{
			{"idle", func() {}, 7 * time.Second, func(s poller.Status) bool {
				return s.Phase == poller.Sleeping && s.For == 2*time.Second && s.Overdue == 0 && s.Err == nil && !s.Clock && !s.Full
			}},
			{"with a store that fails", func() { fails.Store(true) }, 5 * time.Second, func(s poller.Status) bool { return errors.Is(s.Err, fault.ErrInjected) }},
			{"with a store that works again", func() { fails.Store(false) }, 10 * time.Second, func(s poller.Status) bool { return s.Err == nil }},
			{"with a full outbox", func() { full.Store(true) }, 5 * time.Second, func(s poller.Status) bool { return s.Full }},
			{"with an outbox that is empty again", func() { full.Store(false) }, time.Second, func(s poller.Status) bool { return !s.Full }},
			{"while nothing may fire", func() { hold.Store(true) }, 10 * time.Second, func(s poller.Status) bool { return s.Phase == poller.Awaiting }},
			{"with a clock that jumped", func() { hold.Store(false); b.set(time.Hour) }, 6 * time.Second, func(s poller.Status) bool { return s.Clock }},
			{"with a clock that is right again", func() { b.set(0) }, 6 * time.Second, func(s poller.Status) bool { return !s.Clock }},
			{"with a store that hangs", func() { hangs.Store(true) }, 10 * time.Second, func(s poller.Status) bool {
				return s.Phase == poller.Polling && s.For >= 5*time.Second && s.Late() == s.For && s.Jumps == 1
			}},
		} {
			c.do()
			b.after(c.after)
			if got := p.Status(); !c.is(got) {
				b.Errorf("%s: %+v", c.when, got)
			}
		}
	})
}

// TestAPollerThatDoesNotRunIsStopped, before and after.
func TestAPollerThatDoesNotRunIsStopped(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := poller.New(b.store, b, quiet, poller.Options{})
		wants := func(want poller.Phase) {
			b.Helper()
			synctest.Wait()
			if got := p.Status(); got.Phase != want {
				b.Errorf("%+v, want phase %v", got, want)
			}
		}
		wants(poller.Stopped)
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { must(b, p.Run(ctx)) })
		wants(poller.Sleeping)
		stop()
		running.Wait()
		wants(poller.Stopped)
	})
}

// TestAReferenceThatDisagreesLaterIsAJump: before, it did not answer, which was none.
func TestAReferenceThatDisagreesLaterIsAJump(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Reference: func(context.Context) (time.Time, error) {
			if time.Since(b.began) > 2*time.Second {
				return time.Now().Add(-time.Hour), nil
			}
			return time.Time{}, errors.New("the database is away")
		}})
		for after, want := range []bool{false, false, false, true} {
			if s := p.Status(); s.Clock != want {
				b.Errorf("after %d s: %+v", after, s)
			}
			b.after(time.Second)
		}
	})
}
