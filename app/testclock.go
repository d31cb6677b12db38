package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// A TestClock is the time of an [App] under test, see [Options].TestClock. It stands still until
// [TestClock.Advance] moves it. Make one with [NewTestClock]. All methods are safe for concurrent
// use.
type TestClock struct {
	app   *App
	began time.Time
	turn  chan struct{} // holds a value while the clock is moved

	mu  sync.Mutex
	now time.Time
}

// NewTestClock returns a clock that stands still at a time.
func NewTestClock(now time.Time) *TestClock {
	now = timer.RoundDown(now)
	return &TestClock{began: now, now: now, turn: make(chan struct{}, 1)}
}

// Now returns the time. It makes the TestClock a [timer.Clock].
func (c *TestClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// An Advanced counts timers and events while a [TestClock] was moved.
type Advanced struct {
	Now                         time.Time
	Reached, Expired, Published int64 // timers, and events that the broker or a handler has
}

const (
	settleLimit = 30 * time.Second       // real time for the work of one time of the clock
	inboxLimit  = 200 * time.Millisecond // real time after which messages of the inbox are taken for ones over a quota
	heldSteps   = 1000                   // steps of an Advance in which something waits for a quota
)

// Advance moves the clock on to a time: from one at which something is due to the next, and
// returns when all of it has happened. Commands at the broker are applied, due timers have
// fired, and their events are published. While something waits for a quota, steps are a second or a
// thousandth of the way. If ctx ends first the clock stays where it is by then.
func (c *TestClock) Advance(ctx context.Context, to time.Time) (did Advanced, err error) {
	to = timer.RoundUp(to)
	if err := timer.ValidateDueAt(to); err != nil {
		return did, err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return did, ctx.Err()
	}
	from, n := c.Now(), c.app.opt.Counters
	if to.Before(from) {
		return did, timer.Invalid(timer.ReasonBadTime, "the clock is at %s, and never goes back", from.Format(time.RFC3339Nano))
	}
	reached, expired, published := n.Reached(), n.Expired(), n.Forwarded()
	for held := max(time.Second, to.Sub(from)/heldSteps); ; {
		next, err := c.settle(ctx, held)
		at := c.Now()
		if err != nil || !at.Before(to) {
			return Advanced{at, n.Reached() - reached, n.Expired() - expired, n.Forwarded() - published}, err
		}
		if next.IsZero() || next.After(to) {
			next = to
		}
		c.mu.Lock()
		c.now = timer.RoundUp(next)
		c.mu.Unlock()
	}
}

// settle waits until nothing is left to do at the time of the clock, and returns when something is
// to be done next; the zero time if that is never.
func (c *TestClock) settle(ctx context.Context, held time.Duration) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	began := time.Now()
	left := "commands at the broker"
	if err = c.app.broker.CatchUp(ctx, c.app.opt.Role); err == nil || errors.Is(err, errors.ErrUnsupported) {
		err = pause.Until(ctx, func() (bool, error) {
			var err error
			left, next, err = c.app.left(ctx, c.Now(), held, time.Since(began) > inboxLimit)
			c.app.timers.Wake()
			return left == "", err
		})
	}
	if err != nil {
		return next, fmt.Errorf("at %s, left to do: %s: %w", c.Now().Format(time.RFC3339Nano), left, err)
	}
	return next, nil
}

// left names the work that is left now, "" if there is none, and returns when there is work next;
// the zero time if never. Timers and messages of the inbox that wait for a quota are looked at
// again after a time.
func (a *App) left(ctx context.Context, now time.Time, held time.Duration, over bool) (left string, next time.Time, err error) {
	timers := a.store.Timers()
	overdue, err := timers.Overdue(ctx, "", now.Add(time.Millisecond))
	if err != nil {
		return "", next, err
	}
	pauses, err := timers.Firing(ctx, now)
	limited := len(a.opt.Quotas.Held()) > 0
	if err != nil || overdue.Timers > 0 && (a.poller.Status().Cleared.Before(now) || len(pauses) == 0 && !limited) {
		return "timers that are due", next, err
	}
	retry, err := a.forwarder.Next(ctx)
	if err != nil || !retry.IsZero() && !retry.After(now) {
		return "events in the outbox", next, err
	}
	before, _ := a.handlers.InboxClaims()
	waiting, err := a.store.Inbox().NextInbox(ctx)
	claims, busy := a.handlers.InboxClaims()
	claimed := busy || claims != before // then waiting may be the end of a claim
	switch {
	case err != nil || (claimed || !waiting.IsZero() && !waiting.After(now)) && !over:
		return "messages in the inbox", next, err
	case claimed || !waiting.IsZero() && !waiting.After(now):
		waiting = now.Add(held)
	}
	due, err := a.store.NextDue(ctx, now)
	if err != nil {
		return "", next, err
	}
	next = sooner(sooner(due, retry), waiting)
	if limited {
		next = sooner(next, now.Add(held))
	}
	for _, p := range pauses {
		if p.Until.After(now) {
			next = sooner(next, p.Until)
		}
	}
	return "", next, err
}
