package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestHistoryKeepsFiveMinutes with one read of the database in five seconds.
func TestHistoryKeepsFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		h := NewHistory(new(app.Counters), func(context.Context, timer.TenantID) (timer.Stats, error) { reads++; return timer.Stats{}, nil })
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = h.Run(ctx) }()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		samples := h.until(time.Now(), timer.Stats{}, nil)
		if reads != 721 || len(samples) != maxSamples+1 || samples[len(samples)-1].at.Sub(samples[0].at) < recent {
			t.Errorf("%d reads, %d samples from %v to %v", reads, len(samples), samples[0].at, samples[len(samples)-1].at)
		}
		if got := within(samples, time.Minute); len(got) != 14 || got[0].at.Sub(got[1].at) != -sampleInterval {
			t.Errorf("%d samples of the last minute", len(got))
		}
	})
}

// TestHistoryGoesOnWithoutTheDatabase: the timers that it held last still wait, and those
// ahead become overdue.
func TestHistoryGoesOnWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	h := NewHistory(new(app.Counters), nil)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if s := h.sample(now, timer.Stats{NextDue: now.Add(10 * time.Second), DueAt: now.Add(-time.Second)}, nil); s.waiting != time.Second {
		t.Errorf("the oldest event waits for %v", s.waiting)
	}
	if s := h.sample(now, timer.Stats{NextDue: now.Add(10 * time.Second)}, nil); s.waiting != 0 {
		t.Errorf("nothing waits for %v", s.waiting)
	}
	if s := h.sample(now.Add(50*time.Second), timer.Stats{}, errors.New("down")); s.waiting != 40*time.Second {
		t.Errorf("the timer that was due 40 s ago waits for %v", s.waiting)
	}
}

// TestLatenessCountsWhatWaits, as late as the oldest.
func TestLatenessCountsWhatWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		waiting time.Duration
		many    int64
		p50     time.Duration
	}{
		"nothing":                    {0, 0, 0},
		"one for three milliseconds": {3 * time.Millisecond, 1, 3 * time.Millisecond},
		"a hundred in ten seconds":   {10 * time.Second, 100, 10 * time.Second},
		"one for an hour":            {time.Hour, 1, time.Hour},
		"many for an hour":           {time.Hour, 10_000, time.Hour},
		"more than a second, barely": {1100 * time.Millisecond, 11, 1100 * time.Millisecond},
	} {
		l := lateness([]sample{{}, {waiting: test.waiting}}, test.many)
		if l.Events != test.many || l.Max != test.waiting || l.Quantile(0.5) != test.p50 {
			t.Errorf("%s: %+v, half within %v", name, l, l.Quantile(0.5))
		}
	}
}

// TestOverviewShowsAnOutageWhileItLasts, by the event that waits, and afterwards by the worst
// that there was.
func TestOverviewShowsAnOutageWhileItLasts(t *testing.T) {
	t.Parallel()
	h, now := NewHistory(new(app.Counters), nil), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	h.keep(now.Add(-time.Minute), timer.Stats{}, nil)
	o := overview{Limit: quota.DefaultObjective, Stats: timer.Stats{Outbox: 1, DueAt: now.Add(-40 * time.Second)}}
	o.measure(h, now, nil)
	if o.judge(); o.Waiting != 40*time.Second || o.P99 <= quota.DefaultObjective || o.Recent.Max != 40*time.Second || o.Tone != "bad" {
		t.Errorf("%+v", o)
	}
	o = overview{}
	o.measure(h, now, nil)
	if o.judge(); o.Waiting != 0 || o.Tone != "idle" {
		t.Errorf("nothing waits: %+v", o)
	}
	for missed, tone := range map[int64]string{0: "good", 1: "good", 2: "warn"} {
		o = overview{Known: true, Limit: quota.DefaultObjective, Recent: app.Lateness{Events: 100, Missed: missed, Max: time.Minute}}
		if o.judge(); o.Tone != tone {
			t.Errorf("%d of 100 missed their objective: %s", missed, o.Verdict)
		}
	}
	if l := lateness([]sample{{}, {worst: 40 * time.Second}, {}}, 0); l.Max != 40*time.Second {
		t.Errorf("the worst was %v", l.Max)
	}
}
