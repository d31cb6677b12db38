package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	calls []purgeCall
}

type step struct {
	deleted int
	err     error
}

type purgeCall struct {
	at     time.Time
	before time.Time
	limit  int
}

func (s *script) Purge(_ context.Context, before time.Time, limit int) (int, error) {
	s.calls = append(s.calls, purgeCall{time.Now(), before, limit})
	if len(s.steps) == 0 {
		return 0, nil
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	return next.deleted, next.err
}

// run runs a retention for as long as given, in a bubble.
func run(t *testing.T, p interface {
	Purge(ctx context.Context, before time.Time, limit int) (int, error)
}, log *bytes.Buffer, opt store.RetentionOptions, long time.Duration,
) (err error) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	var running sync.WaitGroup
	running.Go(func() {
		err = store.NewRetention(p.Purge, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(log, nil)), opt).Run(ctx)
	})
	running.Wait()
	return err
}

// TestClockThatIsAheadForgetsNothing asks another clock, and believes the earlier
// one.
func TestClockThatIsAheadForgetsNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		said time.Duration // by the other clock, in addition to this one
		err  error
		want time.Duration
		none bool // no sweep
	}{
		"this one is ahead":         {said: -30 * 24 * time.Hour, want: -37 * 24 * time.Hour},
		"the other one is ahead":    {said: 30 * 24 * time.Hour, want: -7 * 24 * time.Hour},
		"the other one tells none":  {err: errors.ErrUnsupported, want: -7 * 24 * time.Hour},
		"the other one is not here": {err: errors.New("no answer"), none: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var p script
				var log bytes.Buffer
				opt := store.RetentionOptions{Reference: func(context.Context) (time.Time, error) { return time.Now().Add(tt.said), tt.err }}
				must(t, run(t, &p, &log, opt, time.Second))
				switch {
				case tt.none:
					if len(p.calls) > 0 || !strings.Contains(log.String(), "no answer") {
						t.Errorf("%d sweeps; log is %q", len(p.calls), log.String())
					}
				case len(p.calls) != 1 || !p.calls[0].before.Equal(began.Add(tt.want)):
					t.Errorf("sweeps %+v, want one of what was over %v", p.calls, tt.want)
				}
			})
		})
	}
}

func TestSweepGoesOnInSmallSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &script{steps: []step{{1000, nil}, {1000, nil}, {3, nil}}}
		var log bytes.Buffer
		must(t, run(t, p, &log, store.RetentionOptions{}, 90*time.Second))
		if len(p.calls) != 4 {
			t.Fatalf("%d steps, want three of the first sweep and one of the second", len(p.calls))
		}
		for i, c := range p.calls {
			if c.limit != 1000 {
				t.Errorf("step %d has limit %d, want 1000", i, c.limit)
			}
			if i > 0 && !c.at.After(p.calls[i-1].at) {
				t.Errorf("no pause before step %d", i)
			}
		}
		if first := p.calls[0]; !first.before.Equal(began.Add(-7 * 24 * time.Hour)) {
			t.Errorf("forgets what was over before %v, want a week ago", first.before)
		}
		if last := p.calls[3].at.Sub(began); last < time.Hour/64 || last > time.Minute {
			t.Errorf("the second sweep began after %v, want about a minute", last)
		}
		if want := "timers=2003"; !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log is %q, want one line with %s", log.String(), want)
		}
	})
}

// TestSweepsThatFindNothingBecomeRare counts them in a day.
func TestSweepsThatFindNothingBecomeRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(script)
		must(t, run(t, p, new(bytes.Buffer), store.RetentionOptions{}, 24*time.Hour))
		if n := len(p.calls); n < 24 || n > 32 {
			t.Errorf("%d sweeps in a day, want about one an hour", n)
		}
		last := p.calls[len(p.calls)-1].at.Sub(p.calls[len(p.calls)-2].at)
		if last != time.Hour {
			t.Errorf("the last pause was %v, want an hour", last)
		}
	})
}

// TestSweepIsTriedAgainAfterAnError that may pass; a fatal one ends the retention.
func TestSweepIsTriedAgainAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &script{steps: []step{{1000, nil}, {0, errBusy}}}
		var log bytes.Buffer
		must(t, run(t, p, &log, store.RetentionOptions{}, 90*time.Second))
		if len(p.calls) < 3 || p.calls[2].at.Sub(p.calls[1].at) != time.Hour/64 {
			t.Errorf("steps %+v, want a new sweep after the one that failed", p.calls)
		}
		if !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("log is %q, want a warning", log.String())
		}
		p.steps = []step{{0, fmt.Errorf("%w: replaced", timer.ErrFatal)}}
		if err := run(t, p, new(bytes.Buffer), store.RetentionOptions{}, time.Hour); !errors.Is(err, timer.ErrFatal) {
			t.Errorf("run: %v, want ErrFatal", err)
		}
	})
}

// TestIdleSweepWritesNothing sweeps a database in which nothing is over long enough, while another
// connection is writing to it.
func TestIdleSweepWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{})
	_, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "a"}, Version: timer.Version{CommandID: "command"}, DueAt: noon})
	must(t, err)
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		if _, err := tx.Reach(t.Context(), noon, 1, nil); err != nil {
			return err
		}
		deleted, err := s.Purge(t.Context(), noon.Add(-time.Hour), 7)
		if deleted != 0 {
			t.Errorf("purged %d", deleted)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
