package service

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// TestExamineClocks compares clocks that are wrong by some time.
func TestExamineClocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		skew time.Duration
		red  bool
		says string
	}{
		{900 * time.Millisecond, false, "agrees"},
		{3 * time.Second, false, "the clock of the broker is ahead of this machine's by 3s"},
		{-3 * time.Second, false, "by -3s"},
		{-2 * time.Minute, true, "by -2m0s"},
	} {
		found := (&examination{}).clock(databaseFound{}, brokerFound{skew: &test.skew})
		if len(found) != 1 || found[0].Red != test.red || !strings.Contains(found[0].Reason, test.says) {
			t.Errorf("%v: %+v, want %v, %q", test.skew, found, test.red, test.says)
		}
	}
}

// A countedReader is a database of ten timers, three of them with commands that are older than
// an hour, at a broker that keeps what a test says.
type countedReader struct {
	timer.Reader
	sync.Mutex
	logs   []broker.Log
	err    error
	takes  time.Duration // what a count takes
	counts int
}

// set changes what the broker says and what a count takes from now on, and returns how many
// counts there were since the call before.
func (c *countedReader) set(err error, takes time.Duration) (counts int) {
	c.Lock()
	defer c.Unlock()
	counts, c.counts = c.counts, 0
	c.err, c.takes = err, takes
	return counts
}

func (c *countedReader) unprotected() *unprotectedCounter {
	return &unprotectedCounter{
		log: slog.New(slog.DiscardHandler),
		logs: func(context.Context) ([]broker.Log, error) {
			c.Lock()
			defer c.Unlock()
			return c.logs, c.err
		},
		store: c,
	}
}

// Timers returns c.
func (c *countedReader) Timers() timer.Reader { return c }

// Stats counts ten timers.
func (c *countedReader) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{Counts: timer.Counts{Scheduled: 10}}, nil
}

func (c *countedReader) RegisteredBefore(_ context.Context, before time.Time, _ int) (timer.Unprotected, error) {
	c.Lock()
	c.counts++
	takes := c.takes
	c.Unlock()
	time.Sleep(takes)
	u := timer.Unprotected{Before: before}
	if old := time.Now().Add(-2 * time.Hour); before.After(old) {
		u.Timers, u.Oldest = 3, old
	}
	return u, nil
}

func TestUnprotectedGoesByTheOldestMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, tt := range map[string]struct {
			logs []broker.Log
			want timer.Unprotected
		}{
			"all are there":              {logs: []broker.Log{{Last: 7, Oldest: now.Add(-3 * time.Hour)}}, want: timer.Unprotected{Before: now.Add(-3 * time.Hour)}},
			"some are gone":              {logs: []broker.Log{{Last: 7, Oldest: now.Add(-time.Hour)}}, want: timer.Unprotected{Before: now.Add(-time.Hour), Timers: 3}},
			"of one of two logs":         {logs: []broker.Log{{Last: 7, Oldest: now.Add(-time.Hour)}, {Last: 7, Oldest: now.Add(-3 * time.Hour)}}, want: timer.Unprotected{Before: now.Add(-time.Hour), Timers: 3}},
			"one of two logs is empty":   {logs: []broker.Log{{Last: 7}, {Last: 7, Oldest: now.Add(-3 * time.Hour)}}, want: timer.Unprotected{Before: now.Add(-3 * time.Hour)}},
			"there is no log":            {want: timer.Unprotected{Timers: 10}},
			"nothing was published":      {logs: []broker.Log{{}}, want: timer.Unprotected{Before: now, Timers: 3}},
			"the only log was emptied":   {logs: []broker.Log{{Last: 7}}, want: timer.Unprotected{Before: now, Timers: 3}},
			"the broker keeps, and says": {logs: []broker.Log{{Last: 1, Oldest: now}}, want: timer.Unprotected{Before: now, Timers: 3}},
		} {
			got, err := (&countedReader{logs: tt.logs}).unprotected().count(t.Context())
			if err != nil || got.Timers != tt.want.Timers || !got.Before.Equal(tt.want.Before) || (got.Timers == 3) == got.Oldest.IsZero() {
				t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
			}
		}
	})
}

// TestUnprotectedIsCountedSoonAfterABrokerThatHung has a broker that does not answer in time.
func TestUnprotectedIsCountedSoonAfterABrokerThatHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &countedReader{logs: []broker.Log{{Last: 7, Oldest: time.Now().Add(time.Hour), Bytes: 1, MaxBytes: 2, Limit: "half"}}}
		u := c.unprotected()
		var hangs atomic.Bool
		answers := u.logs
		u.logs = func(ctx context.Context) ([]broker.Log, error) {
			if hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return answers(ctx)
		}
		hangs.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- u.Run(ctx) }()
		after(time.Second)
		hangs.Store(false)
		for range 2 { // at the start, and later
			after(countTimeout + 2*countInterval)
			if last := u.Last(); time.Since(last.At) > 2*countInterval || u.Full().Name != "half" {
				t.Errorf("the last count is of %v, the fullest limit %+v", last.At, u.Full())
			}
			hangs.Store(true)
			after(countInterval + countTimeout/2)
			hangs.Store(false)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUnprotectedIsCountedOnceAMinute also has a count that takes long, and a broker that
// is away.
func TestUnprotectedIsCountedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &countedReader{err: broker.ErrUnavailable, logs: []broker.Log{{Last: 7, Oldest: time.Now().Add(time.Hour)}}}
		u := c.unprotected()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- u.Run(ctx) }()
		after(time.Minute)
		if last := u.Last(); !last.At.IsZero() || last.String() != "not known yet" {
			t.Errorf("while the broker is away: %+v", last)
		}
		c.set(nil, 0)
		after(2 * time.Second)
		if last := u.Last(); last.Timers != 3 {
			t.Errorf("when the broker is there: %+v", last)
		}
		c.set(nil, 0)
		after(10 * time.Minute)
		if n := c.set(broker.ErrUnavailable, 0); n != 10 {
			t.Errorf("%d counts in 10 minutes", n)
		}
		after(10 * time.Minute)
		if last := u.Last(); last.Timers != 3 || time.Since(last.At) < 9*time.Minute {
			t.Errorf("when the broker is away again: %+v", last)
		}
		c.set(nil, 6*time.Second)
		after(time.Hour)
		if n := c.set(nil, 0); n < 5 || n > 6 {
			t.Errorf("%d counts of 6 s in an hour", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
