package poller_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// TestFullWayOutHoldsFiring has 30 timers due at one instant, of which the way
// out has room for 10 a minute.
func TestFullWayOutHoldsFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		for i := range 30 {
			schedule(t, s, fmt.Sprint(i), began.Add(time.Second))
		}
		var fired, room atomic.Int64
		running(t, poller.New(s, realClock, slog.New(slog.DiscardHandler), poller.Options{
			Batch:   10,
			Full:    func() bool { return fired.Load() >= room.Load() },
			Reached: func(events []timer.DueTimeReached) { fired.Add(int64(len(events))) },
		}))
		time.Sleep(time.Minute)
		for want := range int64(4) {
			if got := fired.Load(); got != 10*want {
				t.Errorf("%d fired in minute %d, want %d", got, want, 10*want)
			}
			room.Add(10)
			time.Sleep(100 * time.Millisecond) // and no longer
			synctest.Wait()
			if got := fired.Load(); got != min(10*want+10, 30) {
				t.Errorf("%d fired when there was room for %d", got, 10*want+10)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestLongHoldIsTold has the way out full for a while, and later for longer.
func TestLongHoldIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t), new(logbuf.Buffer)
		var full atomic.Bool
		asked := 0
		p := poller.New(s, realClock, slog.New(slog.NewTextHandler(log, nil)), poller.Options{Full: func() bool {
			asked++
			return full.Load()
		}})
		running(t, p)
		for _, hold := range []time.Duration{9 * time.Second, time.Hour} {
			full.Store(true)
			p.Sooner(time.Now())
			time.Sleep(hold)
			full.Store(false)
			time.Sleep(time.Second)
			synctest.Wait()
			lines := strings.Count(log.String(), "level=WARN") + strings.Count(log.String(), "level=INFO")
			if want := map[bool]int{true: 2}[hold > time.Minute]; lines != want {
				t.Errorf("%d lines after a hold of %v, want %d:\n%s", lines, hold, want, log)
			}
		}
		if asked > 50_000 {
			t.Errorf("asked %d times in an hour", asked)
		}
	})
}

// running runs a poller until the bubble ends.
func running(t *testing.T, p *poller.Poller) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
