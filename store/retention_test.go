package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A script is a purger that plays a list of steps, then finds nothing.
type script struct {
	steps []step
	calls []call
	takes time.Duration // each step
}

type step struct {
	deleted int
	next    int64
	err     error
}

type call struct {
	at     time.Time
	before time.Time
	cursor int64
	limit  int
}

func (s *script) Purge(_ context.Context, before time.Time, cursor int64, limit int) (int, int64, error) {
	s.calls = append(s.calls, call{time.Now(), before, cursor, limit})
	time.Sleep(s.takes)
	if len(s.steps) == 0 {
		return 0, 0, nil
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	return next.deleted, next.next, next.err
}

// run runs a retention for as long as given, in a bubble.
func run(t *testing.T, p timer.Purger, log *bytes.Buffer, opt store.RetentionOptions, long time.Duration) (err error) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	var running sync.WaitGroup
	running.Go(func() {
		err = store.NewRetention(p, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(log, nil)), opt).Run(ctx)
	})
	running.Wait()
	return err
}

func TestSweepGoesOnInSmallSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &script{steps: []step{{500, 700, nil}, {0, 1400, nil}, {3, 0, nil}}}
		var log bytes.Buffer
		if err := run(t, p, &log, store.RetentionOptions{}, 90*time.Minute); err != nil {
			t.Fatal(err)
		}
		if len(p.calls) != 4 {
			t.Fatalf("%d steps, want three of the first sweep and one of the second", len(p.calls))
		}
		for i, cursor := range []int64{0, 700, 1400, 0} {
			c := p.calls[i]
			if c.cursor != cursor || c.limit != 500 {
				t.Errorf("step %d began after %d with limit %d, want %d and 500", i, c.cursor, c.limit, cursor)
			}
			if i > 0 && !c.at.After(p.calls[i-1].at) {
				t.Errorf("no pause before step %d", i)
			}
		}
		if first := p.calls[0]; !first.before.Equal(began.Add(-7 * 24 * time.Hour)) {
			t.Errorf("forgets what was over before %v, want a week ago", first.before)
		}
		if last := p.calls[3]; last.at.Sub(began) < time.Hour || last.at.Sub(began) > time.Hour+time.Second {
			t.Errorf("the second sweep began after %v, want an hour", last.at.Sub(began))
		}
		if want := "timers=503"; !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log is %q, want one line with %s", log.String(), want)
		}
	})
}

// TestSweepThatFindsNothingIsGentle has steps that take a second each.
func TestSweepThatFindsNothingIsGentle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &script{steps: []step{{1, 500, nil}, {0, 1000, nil}, {1, 1500, nil}}, takes: time.Second}
		var log bytes.Buffer
		if err := run(t, p, &log, store.RetentionOptions{}, time.Minute); err != nil {
			t.Fatal(err)
		}
		var pauses []time.Duration
		for i := 1; i < len(p.calls); i++ {
			pauses = append(pauses, p.calls[i].at.Sub(p.calls[i-1].at)-p.takes)
		}
		if want := []time.Duration{10 * time.Millisecond, 20 * time.Second, 10 * time.Millisecond}; !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
	})
}

func TestSweepIsTriedAgainAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &script{steps: []step{{1, 10, nil}, {0, 10, errBusy}}}
		var log bytes.Buffer
		if err := run(t, p, &log, store.RetentionOptions{Every: time.Minute, Batch: 10}, 90*time.Second); err != nil {
			t.Fatal(err)
		}
		if len(p.calls) != 3 || p.calls[2].cursor != 0 {
			t.Errorf("steps %+v, want a new sweep after the one that failed", p.calls)
		}
		if !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("log is %q, want a warning", log.String())
		}
	})
}

func TestFatalErrorEndsRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &script{steps: []step{{0, 0, fmt.Errorf("%w: replaced", timer.ErrFatal)}}}
		if err := run(t, p, new(bytes.Buffer), store.RetentionOptions{}, time.Hour); !errors.Is(err, timer.ErrFatal) {
			t.Errorf("run: %v, want ErrFatal", err)
		}
	})
}

// TestIdleSweepWritesNothing sweeps a database in which nothing is over long
// enough, and one that somebody else is writing to.
func TestIdleSweepWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{})
	due := time.Now()
	for i := range 30 {
		c := command(timer.ServiceCallID(fmt.Sprint("call-", i)), 1)
		c.DueAt = due
		if _, err := s.Schedule(t.Context(), due, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(t.Context(), due, 15)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(timer.Tx) error { // nobody else can write
		for cursor := int64(0); ; {
			deleted, next, err := s.Purge(t.Context(), due.Add(-time.Hour), cursor, 7)
			if err != nil || deleted != 0 {
				t.Errorf("purge after %d: %d, %v", cursor, deleted, err)
			}
			if next == 0 {
				return nil
			}
			cursor = next
		}
	}); err != nil {
		t.Fatal(err)
	}
}
