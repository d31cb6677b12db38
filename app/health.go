package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// A Check is how one part of an [App] is.
type Check struct {
	Part   string // "store", "broker", "owner", "intake", "poller", "clock" or "forwarder"
	Reason string // what is wrong, or worth knowing; empty if there is nothing to say
	Advice string // what to do about it
	Red    bool   // timers are late or commands are not taken, until it is repaired
}

const (
	checkTimeout = time.Second             // of a check that asks a server
	longPoll     = 1500 * time.Millisecond // after which a poll is stuck, and one that should have begun is missing
	longForward  = 1500 * time.Millisecond // the same of the forwarder
)

// A Status is how the parts are that work by themselves.
type Status struct {
	Poller    poller.Status
	Forwarder outbox.Status
}

// Status returns how poller and forwarder are. It never waits.
func (a *App) Status() Status { return Status{a.poller.Status(), a.forwarder.Status()} }

// Checks returns how each part is, in the order of the flow. It asks the database
// and the broker at the same time, writes nothing, and takes at most a second.
func (a *App) Checks(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var store, broker error
	var parked atomic.Pointer[timer.ParkedEvent]
	var asking sync.WaitGroup
	asking.Go(func() {
		store = a.asked.store.inTime(ctx, func(ctx context.Context) error {
			err := a.store.Check(ctx)
			if err == nil && a.delivery.Handle != nil {
				var page []timer.ParkedEvent
				if page, err = a.store.Parked(ctx, "", 0, 1); len(page) > 0 {
					parked.Store(&page[0])
				}
			}
			return err
		})
	})
	asking.Go(func() { broker = a.asked.broker.inTime(ctx, a.broker.Ready) })
	asking.Wait()
	return []Check{
		foundIf(store != nil, symptom.StoreFails, store),
		a.checkBroker(broker),
		a.checkOwner(),
		a.checkIntake(),
		a.checkPoller(),
		a.checkClock(),
		a.checkForwarder(parked.Load()),
	}
}

// A question is asked by one goroutine at a time, for what is asked may hang.
type question struct{ asked atomic.Bool }

// inTime returns the error of ask, or one that says that there is none in time.
func (q *question) inTime(ctx context.Context, ask func(context.Context) error) error {
	answer := make(chan error, 1)
	if q.asked.CompareAndSwap(false, true) {
		go func() {
			defer q.asked.Store(false)
			answer <- ask(ctx)
		}()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v", checkTimeout)
	}
}

// found is a check that has found a symptom.
func found(s symptom.Symptom, values ...any) Check {
	return Check{Part: s.Part, Reason: s.Seen(values...), Advice: s.Advice(values...), Red: s.Red}
}

// foundIf is a check that has found a symptom, if there is one.
func foundIf(is bool, s symptom.Symptom, values ...any) Check {
	if !is {
		return Check{Part: s.Part}
	}
	return found(s, values...)
}

func (a *App) checkBroker(err error) Check {
	if a.broker == (noBroker{}) {
		return Check{Part: "broker", Reason: "there is none: timers come from this process, and events are handled in it"}
	}
	return foundIf(err != nil, symptom.BrokerFails, err)
}

func (a *App) checkOwner() Check {
	if p := a.Recovery(); p != nil {
		return found(symptom.Recovering, p.Commands, p.Events, p.Ahead)
	}
	return foundIf(!a.owner.is(), symptom.OwnerUnknown)
}

func (a *App) checkIntake() Check {
	if a.handlers.Paused() {
		return found(symptom.IntakePaused)
	}
	return foundIf(!closed(a.handlers.Running()), symptom.IntakeClosed)
}

func (a *App) checkPoller() Check {
	s := a.poller.Status()
	switch {
	case s.Err != nil:
		return found(symptom.PollFailed, s.Err)
	case s.Phase == poller.Stopped:
		return found(symptom.PollerEnded)
	case s.Phase == poller.Polling && s.For > longPoll:
		return found(symptom.PollSlow, s.For.Round(time.Millisecond))
	case s.Overdue > longPoll:
		return found(symptom.PollMissing, s.Overdue.Round(time.Millisecond))
	case s.Phase == poller.Awaiting:
		return found(symptom.CatchingUp)
	case s.Paused.Paused():
		since := s.Paused.Since.Format(time.RFC3339)
		if s.Paused.By != "" {
			since += " by " + s.Paused.By
		}
		return found(symptom.FiringPaused, since)
	}
	return foundIf(s.Full, symptom.OutboxFull)
}

func (a *App) checkClock() Check { return foundIf(a.poller.Status().Clock, symptom.ClockJumped) }

func (a *App) checkForwarder(parked *timer.ParkedEvent) Check {
	s, stuck, fails, limit := a.forwarder.Status(), symptom.ForwarderStuck, symptom.EventsFail, longForward
	if a.delivery.Handle != nil {
		stuck, fails, limit = symptom.HandlerStuck, symptom.HandlerFails, a.delivery.Timeout+longForward
	}
	if !s.Owns {
		return found(symptom.NoShard)
	}
	if s.Unmoved != nil {
		return found(symptom.RowsUnmoved, s.Unmoved)
	}
	if s.Stuck > limit {
		return found(stuck, s.Stuck.Round(time.Millisecond))
	}
	if s.Failing > 0 {
		return found(fails, s.Failing, s.Failed)
	}
	if parked != nil {
		return found(symptom.EventsParked, timer.Key{TenantID: parked.TenantID, ServiceCallID: parked.ServiceCallID}, parked.Reason)
	}
	return Check{Part: symptom.NoShard.Part}
}
