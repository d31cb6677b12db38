package poller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var realClock = timer.ClockFunc(time.Now)

func open(t *testing.T) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func schedule(t *testing.T, s timer.Store, call string, due time.Time) {
	t.Helper()
	if _, err := s.Schedule(t.Context(), time.Now(), timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-" + call},
		DueAt:   due,
	}); err != nil {
		t.Fatal(err)
	}
}

// poll runs a poller until the bubble ends, and returns it and what it fires.
func poll(t *testing.T, s timer.Store, clock timer.Clock, opt poller.Options) (*poller.Poller, <-chan timer.DueTimeReached) {
	fired := make(chan timer.DueTimeReached, 1000)
	opt.Reached = func(events []timer.DueTimeReached) {
		for _, e := range events {
			fired <- e
		}
	}
	p := poller.New(s, clock, slog.New(slog.DiscardHandler), opt)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p, fired
}

func TestFiresAtTheDueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		var want []time.Duration
		for _, after := range []time.Duration{-time.Hour, 0, time.Millisecond, 1234 * time.Millisecond, 5 * time.Second, time.Minute, 999 * time.Hour} {
			schedule(t, s, fmt.Sprint(after.Milliseconds()), began.Add(after))
			want = append(want, max(after, 0))
		}
		_, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour})
		for _, after := range want {
			e := <-fired
			if at := time.Since(began); at != after {
				t.Errorf("%s fired after %v, want %v", e.Key, at, after)
			}
			if e.ReachedAt.Before(e.DueAt) {
				t.Errorf("%s reached at %v, before it was due at %v", e.Key, e.ReachedAt, e.DueAt)
			}
		}
	})
}

func TestWakesForSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		p, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour})
		synctest.Wait()
		for i, after := range []time.Duration{time.Minute, time.Second, 2 * time.Second} {
			schedule(t, s, fmt.Sprint(i), began.Add(after))
			p.Sooner(began.Add(after))
		}
		for _, after := range []time.Duration{time.Second, 2 * time.Second, time.Minute} {
			<-fired
			if at := time.Since(began); at != after {
				t.Errorf("fired after %v, want %v", at, after)
			}
		}
	})
}

func TestWithoutAWakeFiresAtTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		_, fired := poll(t, s, realClock, poller.Options{Interval: 5 * time.Second})
		synctest.Wait()
		schedule(t, s, "1", began.Add(time.Second)) // by another instance
		<-fired
		if at := time.Since(began); at != 5*time.Second {
			t.Errorf("fired after %v, want 5s", at)
		}
	})
}

func TestMoreThanABatchGoesWithoutPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		for i := range 25 {
			schedule(t, s, fmt.Sprint(i), began.Add(time.Second))
		}
		_, fired := poll(t, s, realClock, poller.Options{Batch: 10})
		for range 25 {
			<-fired
		}
		if at := time.Since(began); at != time.Second {
			t.Errorf("all had fired after %v, want 1s", at)
		}
	})
}

func TestOutageOfTheStoreLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		schedule(t, s, "1", began.Add(time.Minute))
		tries := 0
		down := &fault.Store{Full: s, Decide: func(string) fault.Kind {
			if time.Since(began) < 10*time.Minute {
				tries++
				return fault.Before
			}
			return fault.None
		}}
		_, fired := poll(t, down, realClock, poller.Options{})
		<-fired
		if late := time.Since(began) - 10*time.Minute; late > 5*time.Second {
			t.Errorf("fired %v after the store was back, want at most the interval", late)
		}
		if tries > 200 {
			t.Errorf("asked %d times in ten minutes", tries)
		}
	})
}

func TestReportedAsFailedFiresOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		schedule(t, s, "1", began)
		failures := 1
		lying := &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if op == "update" && failures > 0 {
				failures--
				return fault.After
			}
			return fault.None
		}}
		poll(t, lying, realClock, poller.Options{})
		time.Sleep(time.Minute)
		synctest.Wait()
		rows, err := s.Head(t.Context(), 0, 10)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d events in the outbox, %v; want one", len(rows), err)
		}
	})
}

func TestIdlePollerOnlyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		schedule(t, s, "1", time.Now().Add(24*time.Hour))
		var ops []string
		watched := &fault.Store{Full: s, Decide: func(op string) fault.Kind { ops = append(ops, op); return fault.None }}
		poll(t, watched, realClock, poller.Options{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if slices.Contains(ops, "update") || len(ops) < 700 {
			t.Errorf("in an idle hour: %d polls, update = %v", len(ops), slices.Contains(ops, "update"))
		}
	})
}

func TestFatalStoreEndsThePoller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := poller.New(brokenStore{}, realClock, slog.New(slog.DiscardHandler), poller.Options{})
		if err := p.Run(t.Context()); !errors.Is(err, timer.ErrFatal) {
			t.Errorf("Run: %v, want ErrFatal", err)
		}
	})
}

type brokenStore struct{ timer.Store }

func (brokenStore) NextDue(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, timer.ErrFatal
}
