package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// A Handler takes events in this process, one by one, in place of the broker. Of several
// handlers the one with the longest prefix of the service call id of an event takes it.
// Tenants that wait share the calls at once equally: a tenant whose events take long or fail
// delays others until a call ends, and by seconds while thousands of its events wait. So does
// a handler with the others. Receipts go to the broker all the same. Each field that is zero
// has its default, except Handle, which is required.
//
//	read ─► Handle ─► nil:   deleted, together with others
//	          ▲     ─► error: deferred ─► Handle … parked if no attempt can help
type Handler struct {
	Prefix string // of the service call ids of its events; empty for all that no other handler takes

	// Handle reacts to the event of a row. The row is deleted if it returns nil;
	// deleted says that Handle has done so itself. After an error, or a panic, it is
	// called again after a delay, unless the error wraps [timer.ErrInvalid]: then the
	// row is parked at once, or [ErrNotBegun]: then that was no attempt, or it is a
	// [timer.Later], which says when. It is called by
	// many goroutines at once, and again for the same row if the process ends before the
	// row is deleted.
	Handle func(ctx context.Context, row Row) (deleted bool, err error)

	Concurrency int           // calls of Handle at once; default 16
	Attempts    int           // failed calls for a row before it is parked; default any number
	MinDelay    time.Duration // about, after the first failure; it doubles with each further one; default 1s
	MaxDelay    time.Duration // longest delay after a failure; a start tries all at once, since it may bring the cure; default 1h
	Timeout     time.Duration // after which the context of a call ends; default 1 min

	queue *queue
}

func (h Handler) withDefaults() Handler {
	h.Concurrency = option.Positive(h.Concurrency, 16)
	h.Attempts = option.Positive(h.Attempts, math.MaxInt)
	h.MinDelay = option.Positive(h.MinDelay, retry.OnDue.First)
	h.MaxDelay = option.Positive(h.MaxDelay, retry.OnDue.Longest)
	h.MaxDelay = max(h.MaxDelay, h.MinDelay)
	h.Timeout = option.Positive(h.Timeout, time.Minute)
	return h
}

// String names the handler by its prefix.
func (h Handler) String() string { return fmt.Sprintf("the handler with the prefix %q", h.Prefix) }

// handler returns the handler that takes the event of a row, or nil. A receipt goes to the
// broker in any case.
func (f *Forwarder) handler(row Row) *Handler {
	call := row.Message.Metadata.Get(envelope.HeaderServiceCallID)
	for i := range f.opt.Handlers { // the longest prefix first
		if strings.HasPrefix(call, f.opt.Handlers[i].Prefix) && !IsReceipt(row.Message) {
			return &f.opt.Handlers[i]
		}
	}
	return nil
}

// destination returns the name under which a row shares the calls with other rows: its
// tenant, and the prefix of the handler if it has one.
func (h *Handler) destination(row Row) string {
	return strings.TrimSuffix(tenant(row)+" "+h.Prefix, " ")
}

// policy returns when a row is tried again.
func (h *Handler) policy() retry.Policy {
	return retry.Policy{First: h.MinDelay, Factor: retry.OnDue.Factor, Longest: h.MaxDelay, Jitter: retry.OnDue.Jitter}
}

// ErrNotBegun is the error of a Handle that could not begin, such as while the database
// is away. The row is handed over again soon, however often that happens.
var ErrNotBegun = errors.New("the event could not be handed over")

var (
	errPanic = errors.New("the handler panicked")
	errExit  = errors.New("the handler ended its goroutine")
)

// tenant returns the tenant of a row.
func tenant(row Row) string { return row.Message.Metadata.Get(envelope.HeaderTenantID) }

// A handlerCall is a row that a handler is called with.
type handlerCall struct {
	*pipeline
	*Handler
	row         Row
	destination string    // see [Handler.destination]
	since       time.Time // when it began to wait, and then to work
}

// handOver calls a handler with a row, as soon as its turn comes.
func (p *pipeline) handOver(now time.Time, h *Handler, row Row) {
	c := handlerCall{p, h, row, h.destination(row), now}
	p.publishes.Add(1)
	switch begins, waits := h.queue.enter(c); {
	case begins:
		go c.handle()
	case !waits:
		c.putOff(now)
	}
}

// putOff leaves the row of a call that waits no more to the retries. A row of the head is
// deferred for that, unless the sender stops. No attempt is counted.
func (c handlerCall) putOff(now time.Time) {
	o := outcome{handled: true}
	if c.row.Deferred || c.stopping.Err() != nil {
		o.unsent = []Place{c.row.Place}
	} else {
		o.deferred = []Deferral{{Place: c.row.Place, Destination: c.destination, Reason: "many events wait for the handler", RetryAt: now, Untried: true}}
	}
	c.end(now, 0, o)
	c.publishes.Done()
}

// handlerRows returns how many rows a search reads in addition for handlers: it reads the rows of
// their calls again, and a queue may have room for more.
func (s *sender) handlerRows() (more int) {
	for _, h := range s.opt.Handlers {
		more = max(more, h.queue.bound+h.Concurrency)
	}
	return more
}

// unclaimed is why a row waits for a handler.
const unclaimed = "no handler of OnDue in this process has a prefix of its service call id: it waits for an instance that has one"

// PrefixOf returns the text that a service call begins with, up to its first separator.
func PrefixOf(call string) string {
	return cmp.Or(call[:strings.IndexAny(call, "-_.:")+1], call)
}

// claim moves events that wait for a handler, and for which this process has one, to the
// head of the outbox. It does so at the start, and again and again where instances share
// the outbox, since another instance may have fired events that it has no handler for. A
// process without handlers claims all events, for the broker.
func (s *sender) claim(ctx context.Context) {
	var prefixes []string
	for _, h := range s.opt.Handlers {
		prefixes = append(prefixes, h.Prefix)
	}
	if prefixes == nil {
		prefixes = []string{""}
	}
	for failures := 0; ctx.Err() == nil; {
		if s.backlog.waiting() > s.opt.Batch {
			pause.For(ctx, s.interval)
			continue
		}
		claimed := 0
		var err error
		for _, prefix := range prefixes {
			n, wrong := s.table.Claim(ctx, prefix, s.opt.Batch)
			claimed, err = claimed+n, errors.Join(err, wrong)
		}
		switch {
		case claimed > 0:
			s.backlog.add(claimed)
			s.wakeUp()
		case err != nil:
			s.pauseAfter(ctx, &failures, err)
		case s.outbox.Shards == nil, len(s.opt.Handlers) == 0:
			return
		default:
			failures = 0
			pause.For(ctx, s.opt.Interval)
		}
	}
}

// handle calls the function with a row, and then begins the next call.
func (c handlerCall) handle() {
	p, h, row := c.pipeline, c.Handler, c.row
	ctx, cancel := context.WithTimeout(timer.WithTrace(p.publishing, envelope.TraceFrom(row.Message.Metadata.Get)), h.Timeout)
	defer cancel()
	deleted, err := false, errExit
	defer func() { // also after runtime.Goexit
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
			if stack := p.logs.newStack(); stack != "" {
				p.log.ErrorContext(ctx, "the handler of an event panicked", about(row.Message, "seq", row.Seq, "panic", r, "stack", stack)...)
			}
		}
		now, o := p.clock.Now(), outcome{handled: true}
		if next, waits := h.queue.release(now, c); waits {
			go next.handle()
		}
		if err != nil && later(err) == nil && p.stopping.Err() != nil && (p.publishing.Err() != nil || errors.Is(err, context.Canceled)) {
			o.unsent = []Place{row.Place} // the next start hands it over again
		} else {
			p.note(&o, now, row, p.topic(row.Message), h, err)
		}
		if deleted {
			o.acked, o.unsent = nil, []Place{row.Place}
		}
		p.end(now, 0, o)
		p.publishes.Done()
	}()
	if p.stopping.Err() != nil {
		err = context.Canceled
		return
	}
	done, failed := h.Handle(ctx, row)
	if failed != nil { // an error that is a nil pointer panics here, if it does
		_, _, _ = failed.Error(), errors.Is(failed, timer.ErrInvalid), later(failed)
	}
	deleted, err = done && failed == nil, failed
}

// later returns the [timer.Later] in an error, or nil.
func later(err error) *timer.LaterError {
	e, _ := errors.AsType[*timer.LaterError](err)
	return e
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
