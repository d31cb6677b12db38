package poller_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// A troubled store fails, or hangs, when its next due time is asked for.
type troubled struct {
	timer.Store
	err   atomic.Pointer[error]
	hangs atomic.Bool
}

func (s *troubled) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	if err := s.err.Load(); err != nil {
		return time.Time{}, *err
	}
	return s.Store.NextDue(ctx, after)
}

// TestStatusSaysHowThePollerIs takes a poller through all that may be wrong with it.
func TestStatusSaysHowThePollerIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: open(t)}
		var full, hold atomic.Bool
		var ahead atomic.Int64 // of the clock
		clock := timer.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		began := time.Now()
		p, _ := poll(t, s, clock, poller.Options{
			Interval: 5 * time.Second,
			Full:     full.Load,
			Elapsed:  func() time.Duration { return time.Since(began) },
			Await: func(ctx context.Context) bool {
				for hold.Load() && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				return ctx.Err() == nil
			},
			Reference: func(context.Context) (time.Time, error) { return time.Now(), nil },
		})
		after := func(d time.Duration) poller.Status {
			time.Sleep(d)
			synctest.Wait()
			return p.Status()
		}
		if got := after(7 * time.Second); got.Phase != poller.Sleeping || got.For != 2*time.Second || got.Overdue != 0 || got.Err != nil || got.Clock || got.Full {
			t.Errorf("idle: %+v", got)
		}
		busy := errors.New("database is locked")
		s.err.Store(&busy)
		if got := after(5 * time.Second); !errors.Is(got.Err, busy) {
			t.Errorf("with a store that fails: %+v", got)
		}
		s.err.Store(nil)
		if got := after(10 * time.Second); got.Err != nil {
			t.Errorf("with a store that works again: %+v", got)
		}
		full.Store(true)
		if got := after(5 * time.Second); !got.Full {
			t.Errorf("with a full outbox: %+v", got)
		}
		full.Store(false)
		if got := after(time.Second); got.Full {
			t.Errorf("with an outbox that is empty again: %+v", got)
		}
		hold.Store(true)
		if got := after(10 * time.Second); got.Phase != poller.Awaiting {
			t.Errorf("while nothing may fire: %+v", got)
		}
		hold.Store(false)
		ahead.Store(int64(time.Hour))
		if got := after(6 * time.Second); !got.Clock {
			t.Errorf("with a clock that jumped: %+v", got)
		}
		ahead.Store(0)
		if got := after(6 * time.Second); got.Clock {
			t.Errorf("with a clock that is right again: %+v", got)
		}
		s.hangs.Store(true)
		if got := after(10 * time.Second); got.Phase != poller.Polling || got.For < 5*time.Second || got.Late() != got.For || got.Jumps != 1 {
			t.Errorf("with a store that hangs: %+v", got)
		}
	})
}

// TestAPollerThatDoesNotRunIsStopped, before and after.
func TestAPollerThatDoesNotRunIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := poller.New(open(t), realClock, slog.New(slog.DiscardHandler), poller.Options{})
		if got := p.Status(); got.Phase != poller.Stopped {
			t.Errorf("before it runs: %+v", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		synctest.Wait()
		if got := p.Status(); got.Phase != poller.Sleeping {
			t.Errorf("while it runs: %+v", got)
		}
		stop()
		running.Wait()
		if got := p.Status(); got.Phase != poller.Stopped {
			t.Errorf("after it ran: %+v", got)
		}
	})
}

// TestNoAnswerAtTheStartIsNoJump has a reference that does not answer when the poller
// begins: the clock is not what is wrong. One that disagrees says that it is.
func TestNoAnswerAtTheStartIsNoJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var disagrees atomic.Bool
		p, _ := poll(t, open(t), realClock, poller.Options{Elapsed: elapsed(), Reference: func(context.Context) (time.Time, error) {
			if disagrees.Load() {
				return time.Now().Add(-time.Hour), nil
			}
			return time.Time{}, errors.New("the database is away")
		}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := p.Status(); s.Clock || s.Jumps != 0 {
			t.Errorf("without an answer: %+v", s)
		}
		disagrees.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := p.Status(); !s.Clock {
			t.Errorf("with a clock that is ahead: %+v", s)
		}
	})
}
