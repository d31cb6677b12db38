package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
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
	var damaged atomic.Bool
	var asking sync.WaitGroup
	asking.Go(func() {
		store = a.asked.store.inTime(ctx, func(ctx context.Context) error {
			if err := a.store.Check(ctx); err != nil {
				return err
			}
			rows, err := a.store.Damaged(ctx, 0, 1)
			damaged.Store(len(rows) > 0)
			return err
		})
	})
	asking.Go(func() { broker = a.asked.broker.inTime(ctx, a.broker.Ready) })
	asking.Wait()
	return []Check{
		checkStore(store, damaged.Load()),
		a.checkBroker(broker),
		a.checkOwner(),
		a.checkIntake(),
		a.checkPoller(),
		a.checkClock(),
		a.checkForwarder(),
	}
}

// checkStore is red if the database does not work. Damaged timers are worth knowing.
func checkStore(err error, damaged bool) Check {
	c := failed("store", err, "commands wait at the broker and nothing fires: repair the database, it goes on by itself")
	if err == nil && damaged {
		c.Reason, c.Advice = "damaged timers were set aside and did not fire", "check the disk and the memory; timer-service stats says how many"
	}
	return c
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

// failed is a check that is red if there is an error.
func failed(part string, err error, advice string) Check {
	if err == nil {
		return Check{Part: part}
	}
	return Check{Part: part, Reason: err.Error(), Advice: advice, Red: true}
}

// red is a check that is red if something is wrong.
func red(part string, wrong bool, reason, advice string) Check {
	if !wrong {
		return Check{Part: part}
	}
	return Check{Part: part, Reason: reason, Advice: advice, Red: true}
}

func (a *App) checkBroker(err error) Check {
	const part = "broker"
	if a.broker == (noBroker{}) {
		return Check{Part: part, Reason: "there is none: timers come from this process, and events are handled in it"}
	}
	return failed(part, err, "nothing comes in and nothing goes out, nothing is lost: start the broker or repair the network, it goes on by itself")
}

func (a *App) checkOwner() Check {
	if p := a.Recovery(); p != nil {
		return red("owner", true, fmt.Sprintf("the database is recovered from the broker: %d commands and %d events were read, about %d are left", p.Commands, p.Events, p.Ahead),
			"nothing is taken and nothing fires before it ends, by itself")
	}
	return red("owner", !a.owner.is(), "it is not known yet which database owns the commands",
		"no command is taken before the broker says so: see the check of the broker, and the log")
}

func (a *App) checkIntake() Check {
	running := closed(a.handlers.Running())
	if a.handlers.Paused() {
		return red("intake", true, "the database fails: commands wait", "see the check of the store, and the log: a disk that is full or read-only, a lock that another program holds")
	}
	return red("intake", !running, "commands are not taken yet", "see the check of the owner")
}

func (a *App) checkPoller() Check {
	const part = "poller"
	s := a.poller.Status()
	switch {
	case s.Err != nil:
		return failed(part, fmt.Errorf("the last poll failed: %w", s.Err), "timers are late: see the check of the store")
	case s.Phase == poller.Stopped:
		return red(part, true, "it does not run", "see the check of the owner; if that is green, restart the service and report this")
	case s.Phase == poller.Polling && s.For > longPoll:
		return red(part, true, fmt.Sprintf("a poll takes %v so far", s.For.Round(time.Millisecond)), "timers are late: the database is slow, or another program holds a lock")
	case s.Overdue > longPoll:
		return red(part, true, fmt.Sprintf("a poll should have begun %v ago", s.Overdue.Round(time.Millisecond)), "timers are late: the machine has no CPU time to spare, or the process was stopped")
	case s.Phase == poller.Awaiting:
		return Check{Part: part, Reason: "nothing fires before the commands that wait at the broker were read", Advice: "this ends by itself within catch_up_timeout once the broker is there"}
	case s.Paused.Paused():
		reason := "firing is paused since " + s.Paused.Since.Format(time.RFC3339)
		if s.Paused.By != "" {
			reason += " by " + s.Paused.By
		}
		return Check{Part: part, Reason: reason, Advice: "commands are taken, timers fire late: resume firing when the reason for the pause is gone"}
	case s.Full:
		return Check{Part: part, Reason: "nothing fires while many events wait in the outbox", Advice: "see the check of the forwarder"}
	}
	return Check{Part: part}
}

func (a *App) checkClock() Check {
	return red("clock", a.poller.Status().Clock, "the clock jumped forward by more than a minute: nothing fires until the database or the broker agrees",
		"compare the clock of this machine with a right one (chronyc tracking, timedatectl), and set it")
}

func (a *App) checkForwarder() Check {
	const part = "forwarder"
	s := a.forwarder.Status()
	switch {
	case !s.Owns:
		return red(part, true, "it has no shard of the outbox", "see the check of the store: a shard needs a connection of its own to PostgreSQL")
	case a.delivery.Handle != nil && s.Stuck > a.delivery.Timeout+longForward:
		return red(part, true, fmt.Sprintf("no event was handled for %v, and some wait", s.Stuck.Round(time.Millisecond)), "the handler of OnDue ignores the end of its context: see where its goroutines wait")
	case a.delivery.Handle == nil && s.Stuck > longForward:
		return red(part, true, fmt.Sprintf("no event has left for %v, and some wait", s.Stuck.Round(time.Millisecond)), "see the checks of broker and store, and the log for the destination that does not answer")
	}
	return Check{Part: part}
}
