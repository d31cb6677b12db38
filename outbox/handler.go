package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

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
	// row is parked at once, or [ErrNotBegun]: then that was no attempt. It is called by
	// many goroutines at once, and again for the same row if the process ends before the
	// row is deleted.
	Handle func(ctx context.Context, row Row) (deleted bool, err error)

	Concurrency int           // calls of Handle at once; default 16
	Attempts    int           // failed calls for a row before it is parked; default any number
	MinDelay    time.Duration // about, after the first failure; it doubles with each further one; default 1s
	MaxDelay    time.Duration // longest delay after a failure; a start tries all at once, since it may bring the cure; default 1h
	Timeout     time.Duration // after which the context of a call ends; default 1 min

	slots *slots
}

func (h Handler) withDefaults() Handler {
	h.Concurrency = option.Positive(h.Concurrency, 16)
	h.Attempts = option.Positive(h.Attempts, math.MaxInt)
	h.MinDelay = option.Positive(h.MinDelay, retry.OnDue.First)
	h.MaxDelay = option.Positive(h.MaxDelay, retry.OnDue.Longest)
	h.MaxDelay = max(h.MaxDelay, h.MinDelay)
	h.Timeout = option.Positive(h.Timeout, time.Minute)
	h.slots = newSlots(h.Concurrency)
	return h
}

// handler returns the handler that takes the event of a row, or nil.
func (f *Forwarder) handler(row Row) *Handler {
	call := row.Message.Metadata.Get(envelope.HeaderServiceCallID)
	for i := range f.opt.Handlers { // the longest prefix first
		if strings.HasPrefix(call, f.opt.Handlers[i].Prefix) {
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

// retryAfter returns how long a row is deferred after a failure that follows so many others.
func (h Handler) retryAfter(attempts int) time.Duration {
	return retry.Policy{First: h.MinDelay, Factor: retry.OnDue.Factor, Longest: h.MaxDelay, Jitter: retry.OnDue.Jitter}.After(attempts + 1)
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

// maxWait is how long a row of the head waits for a slot while more than maxWaiting rows of
// its tenant wait. Then the row is deferred.
const maxWait = 3 * time.Second

// maxWaiting returns how many rows of one tenant may wait for a slot at any length.
func (p *pipeline) maxWaiting(h *Handler) int { return min(4*h.Concurrency, max(1, p.opt.Batch/8)) }

// share returns how many rows of one handler may wait for a slot while rows of other
// handlers are to be read.
func (p *pipeline) share() int {
	if n := len(p.opt.Handlers); n > 1 {
		return p.opt.Batch / (2 * n)
	}
	return math.MaxInt
}

// handOver hands the events of rows to handlers, and returns the rows that go to the
// broker. A deferred row is left to a later round of retries if maxWaiting rows of its tenant
// wait. A row of the head is deferred if its handler is slow and its share of rows waits.
func (p *pipeline) handOver(rows []Row) (others []Row) {
	var o outcome
	now := p.clock.Now()
	for _, row := range rows {
		if envelope.IsReceipt(row.Message.Metadata.Get(envelope.HeaderType)) {
			others = append(others, row)
			continue
		}
		h := p.handler(row)
		if h == nil {
			o.deferred = append(o.deferred, Deferral{
				Place: row.Place, Destination: row.Message.Metadata.Get(envelope.HeaderServiceCallID), Reason: unclaimed, RetryAt: now, Untried: true, Unclaimed: true,
			})
			continue
		}
		switch destination := h.destination(row); {
		case row.Destination != "" && h.slots.waits(destination) >= p.maxWaiting(h):
			p.land(row.Place)
		case row.Destination == "" && h.slots.slow(now, p.share()):
			o.deferred = append(o.deferred, h.untried(row, now))
		default:
			p.rows.Add(1)
			slot := h.slots.enter(destination)
			p.publishes.Go(func() { p.await(h, row, destination, slot) })
		}
	}
	if len(o.deferred) > 0 {
		p.finish(o)
	}
	return others
}

// unclaimed is why a row waits for a handler.
const unclaimed = "no handler of OnDue has a prefix of its service call id"

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
		case s.outbox.shards == nil, len(s.opt.Handlers) == 0:
			return
		default:
			failures = 0
			pause.For(ctx, s.opt.Interval)
		}
	}
}

// untried defers a row, without counting an attempt, until there are slots.
func (h *Handler) untried(row Row, now time.Time) Deferral {
	return Deferral{Place: row.Place, Destination: h.destination(row), Reason: "many events wait for the handler", RetryAt: now, Untried: true}
}

// await waits for the slot of a row and hands the row over. It defers a row of the head after
// maxWait if too many rows wait.
func (p *pipeline) await(h *Handler, row Row, destination string, slot <-chan struct{}) {
	var impatient <-chan time.Time
	if row.Destination == "" {
		limit := time.NewTimer(maxWait)
		defer limit.Stop()
		impatient = limit.C
	}
	for {
		select {
		case <-slot:
			p.handle(h, row, destination)
			return
		case <-impatient:
			if now := p.clock.Now(); h.slots.leave(now, destination, slot, p.maxWaiting(h), p.share()) {
				p.handled(row, outcome{handled: true, first: row.Message, deferred: []Deferral{h.untried(row, now)}})
				return
			}
		case <-p.stopping.Done():
			if h.slots.leave(time.Time{}, destination, slot, 0, 0) {
				p.handled(row, outcome{unsent: []Place{row.Place}})
				return
			}
		}
	}
}

// handle calls the function with a row, in a slot that it frees at the end.
func (p *pipeline) handle(h *Handler, row Row, destination string) {
	ctx, cancel := context.WithTimeout(timer.WithTrace(p.publishing, envelope.TraceFrom(row.Message.Metadata.Get)), h.Timeout)
	defer cancel()
	deleted, err := false, errExit
	defer func() { // also after runtime.Goexit
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
			p.log.ErrorContext(ctx, "the handler of an event panicked", about(row.Message, "seq", row.Seq, "panic", r, "stack", string(debug.Stack()))...)
		}
		h.slots.release(destination)
		p.handled(row, p.outcome(h, row, deleted, err))
	}()
	if p.stopping.Err() != nil {
		err = p.stopping.Err()
		return
	}
	done, failed := h.Handle(ctx, row)
	if failed != nil { // an error that is a nil pointer panics here, if it does
		_, _ = failed.Error(), errors.Is(failed, timer.ErrInvalid)
	}
	deleted, err = done, failed
}

// outcome returns what becomes of a row that was handed over.
func (p *pipeline) outcome(h *Handler, row Row, deleted bool, err error) outcome {
	now := p.clock.Now()
	switch {
	case err == nil:
		p.failing.note(now, row, nil)
		p.opt.Published(now, []*message.Message{row.Message})
		p.opt.Settled(now, p.topic(row.Message), row, nil)
		if deleted {
			return outcome{gone: []Place{row.Place}}
		}
		return outcome{acked: []Place{row.Place}}
	case p.stopping.Err() != nil && ended(p.publishing, err): // the next start hands it over again
		return outcome{unsent: []Place{row.Place}}
	case errors.Is(err, ErrNotBegun):
		return outcome{handled: true, first: row.Message, unsent: []Place{row.Place}, reason: err}
	case errors.Is(err, timer.ErrInvalid), row.Attempts+1 >= h.Attempts:
		p.failing.note(now, row, nil) // its row is parked
		return outcome{parked: []refusal{{row: row, err: errors.New(readable(err)), handled: true}}}
	}
	p.failing.note(now, row, err)
	return outcome{handled: true, first: row.Message, deferred: []Deferral{{
		Place: row.Place, Destination: h.destination(row), Reason: readable(err), RetryAt: now.Add(h.retryAfter(row.Attempts)),
	}}}
}

// ended reports whether a call failed because its time was over at a stop, or had not
// begun.
func ended(publishing context.Context, err error) bool {
	return publishing.Err() != nil || errors.Is(err, context.Canceled)
}

// handled settles a row, which is no longer in flight then.
func (p *pipeline) handled(row Row, o outcome) {
	switch {
	case o.reason != nil: // it has not begun, so the loop reads it again
		p.report.add(p.log, p.clock.Now(), o)
		p.land(row.Place)
		p.away.Store(true)
		p.wakeUp()
	case len(o.unsent) > 0:
		p.land(row.Place)
	default:
		p.report.add(p.log, p.clock.Now(), o)
		p.finish(o)
	}
	p.rows.Add(-1)
	notify(p.freed)
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

// Slots limit how many handlers are at work at once. A slot that becomes free goes to the
// waiting destination that holds the fewest, so that a destination whose handlers are slow
// delays others only until one of its handlers ends.
type slots struct {
	mu      sync.Mutex
	free    int
	held    map[string]int             // slots in use, by destination
	waiting map[string][]chan struct{} // calls by destination, the oldest first
	turns   []string                   // destinations that wait, in turn
	queued  int                        // calls that wait
	left    time.Time                  // when a call gave up last, after a long wait
}

func newSlots(n int) *slots {
	return &slots{free: n, held: make(map[string]int), waiting: make(map[string][]chan struct{})}
}

// enter returns a channel that is closed when a call for a destination has a slot.
func (s *slots) enter(destination string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := make(chan struct{})
	if s.free > 0 { // so no call waits
		s.free--
		s.held[destination]++
		close(granted)
		return granted
	}
	if len(s.waiting[destination]) == 0 {
		s.turns = append(s.turns, destination)
	}
	s.waiting[destination] = append(s.waiting[destination], granted)
	s.queued++
	return granted
}

// leave gives up a call that waits, if more than most calls of its destination wait, or more
// than share calls of all destinations. It returns false if the call goes on waiting, or has
// a slot.
func (s *slots) leave(now time.Time, destination string, call <-chan struct{}, most, share int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.waiting[destination]
	i := slices.IndexFunc(calls, func(c chan struct{}) bool { return c == call })
	if i < 0 || len(calls) <= most && s.queued <= share {
		return false
	}
	s.left = now
	s.queued--
	s.wait(destination, slices.Delete(calls, i, i+1))
	return true
}

// release frees a slot of a destination.
func (s *slots) release(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[destination]--; s.held[destination] == 0 {
		delete(s.held, destination)
	}
	if len(s.turns) == 0 {
		return
	}
	next := 0
	for i, d := range s.turns {
		if s.held[d] < s.held[s.turns[next]] {
			next = i
		}
		if s.held[s.turns[next]] == 0 {
			break
		}
	}
	d := s.turns[next]
	s.turns = append(slices.Delete(s.turns, next, next+1), d)
	s.free--
	s.held[d]++
	s.queued--
	close(s.waiting[d][0])
	s.wait(d, s.waiting[d][1:])
}

// wait sets which calls of a destination wait. The lock must be held.
func (s *slots) wait(destination string, calls []chan struct{}) {
	if len(calls) > 0 {
		s.waiting[destination] = calls
		return
	}
	delete(s.waiting, destination)
	s.turns = slices.DeleteFunc(s.turns, func(d string) bool { return d == destination })
}

// slow reports whether a call gave up a moment ago, and at least share calls still wait.
func (s *slots) slow(now time.Time, share int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued >= share && now.Sub(s.left).Abs() < maxWait
}

// waits returns how many calls for a destination wait.
func (s *slots) waits(destination string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[destination])
}
