package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// defaultCatchUpTimeout is that of [Options].
const defaultCatchUpTimeout = 10 * time.Second

const (
	minCatchUpPause = time.Millisecond // between two checks of a broker that is away
	maxCatchUpPause = 50 * time.Millisecond
	longPause       = 2 * time.Second // beyond the polling interval, between two polls: the process was stopped
	longWait        = time.Second     // which is logged
)

// A catchUp keeps timers from firing before the backlog of commands was read, since a
// cancellation may wait there.
//
//	        connected                  CatchUp returned, or the timeout passed
//	away ──────────────► catching up ──────────────────────────────────────────► firing
//	  ▲                      │  ▲                                                  │
//	  └──────────────────────┘  └── broker or store failed, process was stopped ───┘
//
// It does something only when the poller asks, and asks the broker only while it catches up.
type catchUp struct {
	broker  broker.Broker
	role    string
	timeout time.Duration
	pause   time.Duration                               // longest between two calls of await
	store   func() int64                                // how often the store failed, as the handlers count it
	readAll func() (complete bool, interruptions int64) // whether the start has read all that the broker held, and how often it had been away by then
	log     *slog.Logger

	own atomic.Int64 // polls that failed, and stops of the process, by a signal or its machine

	caught bool      // whether anything may have fired
	after  int64     // failures that the last catch-up followed
	last   time.Time // end of the last await
}

// polled counts polls that failed.
func (c *catchUp) polled(_ time.Duration, err error) {
	if err != nil {
		c.own.Add(1)
	}
}

// await waits until timers may fire. It returns false if ctx ended first.
func (c *catchUp) await(ctx context.Context) bool {
	began := time.Now()
	if !c.last.IsZero() && began.Sub(c.last) > c.pause+longPause {
		c.own.Add(1)
	}
	first := !c.caught
	ok, inTime := c.wait(ctx)
	c.last = time.Now()
	waited := c.last.Sub(began)
	switch {
	case !ok:
		return false
	case !inTime:
		c.log.WarnContext(ctx, "timers fire before all commands that wait at the broker were read", "waited", waited)
	case first || waited >= longWait:
		c.log.InfoContext(ctx, "commands that waited at the broker were read, timers fire", "waited", waited)
	}
	return true
}

// wait waits until the backlog was read, or until the timeout has passed since the
// broker was there. It returns false if ctx ended first.
func (c *catchUp) wait(ctx context.Context) (ok, inTime bool) {
	var until time.Time // zero while the broker is away
	var connected int64 // for which until is
	for wait := minCatchUpPause; ; wait = min(2*wait, maxCatchUpPause) {
		interruptions, away := c.broker.Interruptions()
		now := interruptions + c.store() + c.own.Load() // failures after which the backlog has to be read again
		if complete, before := c.readAll(); complete && !c.caught && interruptions == before {
			c.caught, c.after = true, now
		}
		switch {
		case away != nil:
			until = time.Time{}
		case c.caught && now == c.after:
			return true, true
		default:
			if until.IsZero() || interruptions != connected {
				until, connected = time.Now().Add(c.timeout), interruptions
			}
			err := c.read(ctx, until)
			switch late := !time.Now().Before(until); {
			case err == nil:
				if c.caught, c.after = true, now; late {
					return true, true // failures that never end must not hold back everything
				}
				continue
			case late && !errors.Is(c.broker.Ready(ctx), broker.ErrUnavailable):
				c.caught, c.after = true, now
				return ctx.Err() == nil, false
			case late:
				until = time.Time{}
			}
		}
		if !pause.For(ctx, wait) {
			return false, false
		}
	}
}

// read waits until the backlog was read, at the longest until a time. If the broker has no
// way to tell, it does not wait.
func (c *catchUp) read(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return ignore(c.broker.CatchUp(ctx, c.role), errors.ErrUnsupported)
}
