package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// How often the database is asked what became of a command: until it was handled,
// and then whether a newer one replaced it.
const (
	outcomeInterval  = 100 * time.Millisecond
	replacedInterval = time.Second
)

// A conclusion is what the database says of a command that ends the wait for it.
type conclusion struct {
	result    string
	reachedAt time.Time // of the timer; zero if it is not Reached
	err       error     // why the command has no effect, or none any more; nil if it has
}

// conclusions returns what became of a command, once that is decided other than by
// its event. It asks the database of the configuration until ctx ends; if there is
// none that can be read here, it returns nil, from which nothing comes.
func conclusions(ctx context.Context, e *env, p *published, judge func(timer.Entry, timer.Version) *conclusion) <-chan conclusion {
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return nil
	}
	decided := make(chan conclusion, 1)
	version := timer.Version{TimestampMS: p.TimestampMS, CommandID: p.ID}
	go func() {
		defer r.Close()
		for interval := outcomeInterval; pause.For(ctx, interval); {
			entry, err := r.Get(ctx, p.key())
			if err != nil {
				continue // not handled yet, or the database is busy
			}
			if o := judge(entry, version); o != nil {
				decided <- *o
				return
			}
			if entry.Version == version {
				interval = replacedInterval
			}
		}
	}()
	return decided
}

// judgeSchedule returns why a ScheduleTimer will have no event, or nil if it may.
func judgeSchedule(e timer.Entry, version timer.Version) *conclusion {
	switch e.ScheduleOutcome(version) {
	case timer.WasReached:
		return &conclusion{resultIgnored, e.ReachedAt, fmt.Errorf("%s: already reached at %s: use a new call id", e.Key, when(stamp(e.ReachedAt)))}
	case timer.WasStale:
		return superseded(e)
	}
	return nil
}

// judgeCancel returns what became of a CancelTimer, or nil if it was not handled yet.
func judgeCancel(e timer.Entry, version timer.Version) *conclusion {
	switch e.CancelOutcome(version) {
	case timer.WasReached:
		return &conclusion{resultIgnored, e.ReachedAt, fmt.Errorf("%s: already reached at %s", e.Key, when(stamp(e.ReachedAt)))}
	case timer.DidCancel:
		return &conclusion{result: resultCanceled}
	case timer.WasStale:
		return superseded(e)
	}
	return nil
}

// superseded is the conclusion that a newer command has come.
func superseded(e timer.Entry) *conclusion {
	if e.State == timer.Canceled {
		return &conclusion{resultIgnored, time.Time{}, fmt.Errorf("%s: a newer command canceled it at %s", e.Key, when(stamp(e.CanceledAt)))}
	}
	return &conclusion{resultIgnored, time.Time{}, fmt.Errorf("%s: a newer command set it to %s", e.Key, when(stamp(e.DueAt)))}
}

// before returns what the database knows of a timer that is to be canceled, nil if
// that is nothing. It reports whether there is a database that can be read here.
func before(ctx context.Context, e *env, key timer.Key) (_ *shownTimer, read bool) {
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return nil, false
	}
	defer r.Close()
	entry, err := r.Get(ctx, key)
	if err != nil {
		return nil, errors.Is(err, timer.ErrNotFound)
	}
	return show(entry), true
}

// was says for people what a timer was before.
func (s *shownTimer) was() string {
	switch {
	case s == nil:
		return "no such timer, the service keeps a tombstone"
	case s.State == timer.Reached:
		return "reached at " + when(s.ReachedAt) + " and stays so"
	case s.State == timer.Canceled:
		return "canceled before, at " + when(s.CanceledAt)
	}
	return "was due at " + when(s.DueAt)
}
