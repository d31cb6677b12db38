package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// How often the database is asked what became of a command: until it was handled,
// and then whether a newer one replaced it.
const (
	outcomeInterval  = 100 * time.Millisecond
	replacedInterval = time.Second
	refusedTries     = 10 // reads until its dead letter is looked for, which takes longer
)

// A conclusion is what the database says of a command that ends the wait for it.
type conclusion struct {
	result    string
	reachedAt time.Time // of the timer; zero if it is not Reached
	err       error     // why the command has no effect, or none any more; nil if it has

	eventID string              // of the timer that fired; empty if the event itself says so
	dead    *deadletter.Message // of the command; nil if there is none
}

// conclusions returns what became of a command, once that is decided other than by
// its event. It asks until ctx ends; if nothing can be read here, it returns nil, from
// which nothing comes.
func conclusions(ctx context.Context, e *env, p *published, judge func(timer.Entry, timer.Version) *conclusion) <-chan conclusion {
	r, err := e.reader(ctx)
	if err != nil {
		return nil
	}
	decided := make(chan conclusion, 1)
	version := timer.Version{TimestampMS: p.TimestampMS, CommandID: p.ID}
	go func() {
		defer r.Close()
		interval := outcomeInterval
		for tries := 1; pause.For(ctx, interval); tries++ {
			entry, _, err := r.Get(ctx, p.key())
			if err != nil && !errors.Is(err, timer.ErrNotFound) {
				continue // it is busy, or away
			}
			if err == nil {
				if o := judge(entry, version); o != nil {
					decided <- *o
					return
				}
			}
			switch {
			case entry.Version == version:
				interval = max(outcomeInterval, min(replacedInterval, entry.DueAt.Sub(e.now())))
			case !e.cfg.Server.Empty() && tries%refusedTries == 0: // else the dead letter comes by itself
				if m := deadLetterOf(ctx, r, p); m != nil {
					decided <- conclusion{dead: m}
					return
				}
			}
		}
	}()
	return decided
}

// deadLetterOf returns the dead letter of a command; nil if there is none, or none yet.
func deadLetterOf(ctx context.Context, c *apiclient.Client, p *published) (found *deadletter.Message) {
	f := deadletter.Filter{Tenant: p.TenantID, Correlation: p.CorrelationID}
	_, _ = apiclient.DeadLetters{Client: c}.List(ctx, f, func(m deadletter.Message) error { // it is tried again
		if m.OriginalID == p.ID {
			found = &m
		}
		return nil
	})
	return found
}

// judgeFired is judgeSchedule for a service that is asked, from which no event comes.
func judgeFired(e timer.Entry, version timer.Version) *conclusion {
	if e.Version == version && e.State == timer.Reached {
		return &conclusion{result: resultReached, reachedAt: e.ReachedAt, eventID: envelope.EventID(e.Event())}
	}
	return judgeSchedule(e, version)
}

// judgeSchedule returns why a ScheduleTimer will have no event, or nil if it may.
func judgeSchedule(e timer.Entry, version timer.Version) *conclusion {
	switch e.ScheduleOutcome(version) {
	case timer.WasReached:
		return &conclusion{result: resultIgnored, reachedAt: e.ReachedAt, err: fmt.Errorf("%s: already reached at %s: use a new call id", e.Key, when(stamp(e.ReachedAt)))}
	case timer.WasStale:
		return superseded(e)
	}
	return nil
}

// judgeCancel returns what became of a CancelTimer, or nil if it was not handled yet.
func judgeCancel(e timer.Entry, version timer.Version) *conclusion {
	switch e.CancelOutcome(version) {
	case timer.WasReached:
		return &conclusion{result: resultIgnored, reachedAt: e.ReachedAt, err: fmt.Errorf("%s: already reached at %s", e.Key, when(stamp(e.ReachedAt)))}
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
		return &conclusion{result: resultIgnored, err: fmt.Errorf("%s: a newer command canceled it at %s", e.Key, when(stamp(e.CanceledAt)))}
	}
	return &conclusion{result: resultIgnored, err: fmt.Errorf("%s: a newer command set it to %s", e.Key, when(stamp(e.DueAt)))}
}

// before returns what the database knows of a timer that is to be canceled, nil if
// that is nothing. It reports whether there is a database that can be read here.
func before(ctx context.Context, e *env, key timer.Key) (_ *shownTimer, read bool) {
	r, err := e.reader(ctx)
	if err != nil {
		return nil, false
	}
	defer r.Close()
	entry, _, err := r.Get(ctx, key)
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
