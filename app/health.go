package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// A Check is how one part of an [App] is.
type Check struct {
	Part   string // "store", "broker", "owner", "intake", "inbox", "poller", "clock" or "forwarder"
	Reason string // why it is red, or something worth knowing; empty if there is nothing to say
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
	var store, broker error
	var left *leftEvents
	var asking sync.WaitGroup
	asking.Go(func() {
		left, store = a.ask(ctx, "store", func(ctx context.Context) (*leftEvents, error) {
			if err := a.store.Check(ctx); err != nil {
				return nil, err
			}
			return a.leftEvents(ctx)
		})
	})
	asking.Go(func() {
		_, broker = a.ask(ctx, "broker", func(ctx context.Context) (*leftEvents, error) { return nil, a.broker.Ready(ctx) })
	})
	asking.Wait()
	return []Check{
		foundIf(store != nil, symptom.StoreFails, store),
		a.checkBroker(broker),
		a.checkOwner(),
		a.checkIntake(),
		a.checkInbox(),
		a.checkPoller(),
		a.checkClock(),
		a.checkForwarder(left),
	}
}

// leftEvents are events that wait for a person: at the broker a destination fails, or a handler
// of OnDue refused them, or no handler wants them.
type leftEvents struct {
	failing   []timer.FailingDestination
	parked    []timer.ParkedEvent
	unclaimed []timer.ServiceCallID
}

func (a *App) leftEvents(ctx context.Context) (*leftEvents, error) {
	if len(a.handling) == 0 {
		if !a.forwarder.Status().Fails {
			return nil, nil
		}
		failing, err := a.store.Timers().Failing(ctx)
		return &leftEvents{failing: failing}, err
	}
	parked, err := a.store.Timers().Parked(ctx, "", 0, 1)
	if err != nil {
		return nil, err
	}
	unclaimed, err := a.store.Timers().Unclaimed(ctx, maxUnclaimed)
	return &leftEvents{nil, parked, unclaimed}, err
}

// ask returns the answer of a part, or an error that says that there was none in time.
// Concurrent callers share an answer, whichever of them gives up: a database or a broker may
// hang, and then one goroutine waits for it.
func (a *App) ask(ctx context.Context, part string, ask func(context.Context) (*leftEvents, error)) (*leftEvents, error) {
	shared := context.WithoutCancel(ctx)
	answer := a.asked.DoChan(part, func() (any, error) {
		ctx, cancel := context.WithTimeout(shared, checkTimeout)
		defer cancel()
		return ask(ctx)
	})
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case r := <-answer:
		left, _ := r.Val.(*leftEvents)
		return left, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v", checkTimeout)
	}
}

// found is a check that has found a symptom.
func found(s symptom.Symptom, values ...any) Check {
	return Check{Part: s.Part, Reason: s.Seen(values...), Advice: s.Advice(values...), Red: s.Red}
}

// foundIf returns a Check for the symptom, or a green Check if is is false.
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
	if tenant, missed := a.handlers.MissedDeadLetters(); missed > 0 && closed(a.handlers.Running()) {
		return found(symptom.LettersMissed, missed, tenant)
	}
	return foundIf(!closed(a.handlers.Running()), symptom.IntakeClosed)
}

// checkInbox names the tenant that has most in an inbox that is full, or one whose messages are
// stuck: the worst, by the kinds of a symptom.
func (a *App) checkInbox() Check {
	if tenant, bytes, full := a.handlers.FullInbox(); full {
		return found(symptom.InboxTotal, bytes>>20, tenant)
	}
	stuck := a.handlers.StuckTenants()
	others := sayMore(", and of %d more tenants", len(stuck)-1)
	for _, s := range stuck {
		if s.Paused {
			return found(symptom.InboxPaused, s.TenantID, s.Messages)
		}
	}
	for _, s := range stuck {
		if s.Failing > 0 {
			return found(symptom.MessagesFail, s.Failing, s.TenantID, s.Since.UTC().Format(time.RFC3339), others)
		}
	}
	if len(stuck) > 0 {
		return found(symptom.InboxFull, stuck[0].TenantID, stuck[0].Messages, others)
	}
	return Check{Part: symptom.InboxFull.Part}
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
	}
	if c := checkFiring(s.Paused, a.opt.Clock.Now()); c.Reason != "" {
		return c
	}
	return foundIf(s.Full, symptom.OutboxFull)
}

// checkFiring says whose firing is paused.
func checkFiring(pauses timer.Pauses, now time.Time) Check {
	if p := pauses.Of("", now); p.Paused() {
		return found(symptom.FiringPaused, p)
	}
	tenants := slices.DeleteFunc(slices.Sorted(maps.Keys(pauses)), func(t timer.TenantID) bool { return !pauses[t].InForce(now) })
	if len(tenants) == 0 {
		return foundIf(false, symptom.TenantPaused)
	}
	return found(symptom.TenantPaused, tenants[0], pauses[tenants[0]], sayMore(", and of %d more tenants", len(tenants)-1))
}

// sayMore says how many more there are than the one that a check names; it is empty if there are none.
func sayMore(format string, n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}

func (a *App) checkClock() Check {
	s := a.poller.Status()
	if s.Behind {
		return found(symptom.ClockBehind)
	}
	return foundIf(s.Clock, symptom.ClockJumped)
}

// checkForwarder says how the forwarder is, and which events are left for a person; nil: that
// is not known.
func (a *App) checkForwarder(left *leftEvents) Check {
	s, stuck, limit := a.forwarder.Status(), symptom.ForwarderStuck, longForward
	for _, d := range a.handling {
		stuck, limit = symptom.HandlerStuck, max(limit, d.Timeout+longForward)
	}
	switch {
	case !s.Owns:
		return found(symptom.NoShard)
	case s.Unmoved != nil:
		return found(symptom.RowsUnmoved, s.Unmoved)
	case s.Stuck > limit:
		return found(stuck, s.Stuck.Round(time.Millisecond))
	case len(a.handling) > 0 && s.Failing > 0:
		return found(symptom.HandlerFails, s.Failing, s.Failed)
	case left != nil && len(left.failing) > 0 && a.opt.Clock.Now().Sub(timer.LongestFailing(left.failing).Oldest) > longFailing:
		return CheckDestinations(left.failing)
	case left != nil && len(left.parked) > 0:
		e := left.parked[0]
		return found(symptom.EventsParked, timer.Key{TenantID: e.TenantID, ServiceCallID: e.ServiceCallID}, e.Reason)
	case left != nil && len(left.unclaimed) > 0:
		return found(symptom.EventsUnclaimed, byPrefix(left.unclaimed))
	}
	return Check{Part: symptom.NoShard.Part}
}

// longFailing is how long events of a destination wait before it is reported.
const longFailing = 10 * time.Second

// CheckDestinations returns the check of destinations that fail. It names the one whose events
// have waited longest.
func CheckDestinations(all []timer.FailingDestination) Check {
	worst, others := timer.LongestFailing(all), sayMore("; so do %d more destinations", len(all)-1)
	return found(symptom.DestinationFails, worst.Destination, worst.Waiting(), worst.Oldest.UTC().Format(time.RFC3339), others, worst.Reason)
}

const (
	maxUnclaimed = 1000 // events that are counted for a check
	maxPrefixes  = 5    // that it names
)

// byPrefix says how many service calls begin with which text, up to their first separator:
// "3 order-…, 1 invoice-…". It names no payload, and no more than 32 bytes of each.
func byPrefix(calls []timer.ServiceCallID) string {
	count := make(map[string]int)
	for _, call := range calls {
		count[outbox.PrefixOf(string(call))]++
	}
	said := make([]string, 0, maxPrefixes)
	for _, prefix := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) }) {
		if len(said) == maxPrefixes {
			said[maxPrefixes-1] += ", and others"
			break
		}
		said = append(said, fmt.Sprintf("%d %.32s…", count[prefix], prefix))
	}
	return strings.Join(said, ", ")
}
