package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Delivery hands events to a function of this process instead of a broker, each
// by itself. Tenants that wait share the calls at once equally, so one whose events
// take long or fail delays others until a call ends, and by seconds while thousands of
// its events wait. Receipts go to the broker all the same. What is zero but for Handle has its default.
//
//	read ─► Handle ─► nil:   deleted, together with others
//	          ▲     ─► error: deferred ─► Handle … parked if no attempt can help
type Delivery struct {
	// Handle reacts to the event of a row. The row is deleted if it returns nil;
	// deleted says that Handle has done so itself. After an error, or a panic, it is
	// called again after a delay, unless the error wraps [timer.ErrInvalid]: then the
	// row is parked at once, or [ErrNotBegun]: then that was no attempt. It is called by
	// many goroutines at once, and again for the same row if the process ends before the
	// row is deleted.
	Handle func(ctx context.Context, row Row) (deleted bool, err error)

	Concurrency int           // calls of Handle at once; default 16
	Attempts    int           // failed calls for a row before it is parked; default any number
	MinDelay    time.Duration // about, after the first failure; it doubles with each further one; default 1s
	MaxDelay    time.Duration // longest delay after a failure; a start tries all at once, since it may bring the cure; default 1h
	Timeout     time.Duration // after which the context of a call ends; default 1 min
	Grace       time.Duration // how long calls may go on after the end of Run's context; default that of a publish
}

func (d Delivery) withDefaults() Delivery {
	if d.Concurrency <= 0 {
		d.Concurrency = 16
	}
	if d.Attempts <= 0 {
		d.Attempts = math.MaxInt
	}
	if d.MinDelay <= 0 {
		d.MinDelay = time.Second
	}
	if d.MaxDelay <= 0 {
		d.MaxDelay = time.Hour
	}
	d.MaxDelay = max(d.MaxDelay, d.MinDelay)
	if d.Timeout <= 0 {
		d.Timeout = time.Minute
	}
	if d.Handle == nil || d.Grace <= 0 {
		d.Grace = StopTimeout / 2
	}
	return d
}

// retryAfter is how long a row is deferred that has failed so often before, about.
func (d Delivery) retryAfter(attempts int) time.Duration {
	delay := d.MinDelay
	for range min(attempts, 62) {
		if delay >= d.MaxDelay/2 {
			delay = d.MaxDelay
			break
		}
		delay *= 2
	}
	return delay - rand.N(delay/4+1) //nolint:gosec // jitter
}

// retryInterval is the pause between two polls for rows that are due again.
func (d Delivery) retryInterval() time.Duration {
	if d.Handle == nil {
		return retryInterval
	}
	return min(max(d.MinDelay/4, retryInterval), time.Second)
}

// ErrNotBegun is the error of a Handle that could not begin, such as while the database
// is away. The row is handed over again soon, however often that happens.
var ErrNotBegun = errors.New("the event could not be handed over")

var (
	errPanic = errors.New("the handler panicked")
	errExit  = errors.New("the handler ended its goroutine")
)

// tenant returns the tenant of a row, which is its destination where it is handed over.
func tenant(row Row) string { return row.Message.Metadata.Get(envelope.HeaderTenantID) }

// patience is how long rows of the head wait for a slot while their tenant has many
// others that do.
const patience = 3 * time.Second

// many is how many.
func (w *window) many() int { return min(4*w.opt.Deliver.Concurrency, max(1, w.opt.Batch/8)) }

// deliver hands the events of rows over, and returns the other rows. Where a tenant has
// many that wait for a slot, further ones are left to a later round of retries.
func (w *window) deliver(rows []Row) (others []Row) {
	for _, row := range rows {
		if envelope.IsReceipt(row.Message.Metadata.Get(envelope.HeaderType)) {
			others = append(others, row)
			continue
		}
		destination := tenant(row)
		if row.Destination != "" && w.slots.waits(destination) >= w.many() {
			w.land(row.Place)
			continue
		}
		w.rows.Add(1)
		slot := w.slots.enter(destination)
		w.publishes.Go(func() { w.await(row, destination, slot) })
	}
	return others
}

// await hands a row over when it has a slot.
func (w *window) await(row Row, destination string, slot <-chan struct{}) {
	var impatient <-chan time.Time
	if row.Destination == "" {
		limit := time.NewTimer(patience)
		defer limit.Stop()
		impatient = limit.C
	}
	for {
		select {
		case <-slot:
			w.handle(row, destination)
			return
		case <-impatient:
			if w.slots.leave(destination, slot, w.many()) {
				w.handled(row, outcome{handled: true, first: row.Message, deferred: []Deferral{{
					Place: row.Place, Destination: destination, Reason: "many events of its tenant wait for handlers", RetryAt: w.clock.Now(), Untried: true,
				}}})
				return
			}
		case <-w.stopping.Done():
			if w.slots.leave(destination, slot, 0) {
				w.handled(row, outcome{unsent: []Place{row.Place}})
				return
			}
		}
	}
}

// handle calls the function with a row, in a slot that it frees at the end.
func (w *window) handle(row Row, destination string) {
	ctx, cancel := context.WithTimeout(timer.WithTrace(w.publishing, envelope.TraceFrom(row.Message.Metadata.Get)), w.opt.Deliver.Timeout)
	defer cancel()
	deleted, err := false, errExit
	defer func() { // also after runtime.Goexit
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
			w.log.ErrorContext(ctx, "the handler of an event panicked", about(row.Message, "seq", row.Seq, "panic", r, "stack", string(debug.Stack()))...)
		}
		w.slots.release(destination)
		w.handled(row, w.outcome(row, deleted, err))
	}()
	if w.stopping.Err() != nil {
		err = w.stopping.Err()
		return
	}
	done, failed := w.opt.Deliver.Handle(ctx, row)
	if failed != nil { // an error that is a nil pointer panics here, if it does
		_, _ = failed.Error(), errors.Is(failed, timer.ErrInvalid)
	}
	deleted, err = done, failed
}

// outcome returns what becomes of a row that was handed over.
func (w *window) outcome(row Row, deleted bool, err error) outcome {
	d, now := &w.opt.Deliver, w.clock.Now()
	switch {
	case err == nil:
		w.failing.note(now, row, nil)
		w.opt.Published(now, []*message.Message{row.Message})
		if w.opt.Settled != nil {
			w.opt.Settled(now, w.topic(row.Message), row, nil)
		}
		if deleted {
			return outcome{gone: []Place{row.Place}}
		}
		return outcome{acked: []Place{row.Place}}
	case w.stopping.Err() != nil && ended(w.publishing, err): // the next start hands it over again
		return outcome{unsent: []Place{row.Place}}
	case errors.Is(err, ErrNotBegun):
		return outcome{handled: true, first: row.Message, unsent: []Place{row.Place}, reason: err}
	case errors.Is(err, timer.ErrInvalid), row.Attempts+1 >= d.Attempts:
		w.failing.note(now, row, nil) // its row is parked
		return outcome{parked: []refusal{{row: row, err: errors.New(readable(err)), handled: true}}}
	}
	w.failing.note(now, row, err)
	return outcome{handled: true, first: row.Message, deferred: []Deferral{{
		Place: row.Place, Destination: tenant(row), Reason: readable(err), RetryAt: now.Add(d.retryAfter(row.Attempts)),
	}}}
}

// ended reports whether a call failed because its time was over at a stop, or had not
// begun.
func ended(publishing context.Context, err error) bool {
	return publishing.Err() != nil || errors.Is(err, context.Canceled)
}

// handled settles a row, which is no longer in the window then.
func (w *window) handled(row Row, o outcome) {
	switch {
	case o.reason != nil: // it has not begun, so the loop reads it again
		w.report.add(w.log, w.clock.Now(), o)
		w.land(row.Place)
		w.away.Store(true)
		w.wakeUp()
	case len(o.unsent) > 0:
		w.land(row.Place)
	default:
		w.report.add(w.log, w.clock.Now(), o)
		w.finish(o)
	}
	w.rows.Add(-1)
	notify(w.freed)
}

// maxReason is how much of an error is kept with a row.
const maxReason = 1000

// readable returns the text of an error as any database takes it.
func readable(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}
