package handlers

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// These bound the messages of an inbox in flight.
const (
	maxRows       = 256                   // in all
	maxTenantRows = 32                    // of a tenant in one call of TakeInbox; a tenant that has as many in flight is left out
	claimTime     = 30 * time.Second      // for which no other instance takes a row
	takePause     = 20 * time.Millisecond // shortest time between two calls of TakeInbox
	gatePause     = time.Second           // longest time between them while rows of some tenants must not be taken
	pollPause     = 5 * time.Second       // longest time between two calls while rows wait
	idlePause     = time.Minute           // longest time until rows of an instance that has died are noticed
	giveBackTime  = time.Second           // for rows that are in flight after the end of the drain
	purgePause    = 10 * time.Minute      // between two calls of PurgeApplied, unless one has deleted purgeSize, or a tenant has as many
	purgeSize     = 1000                  // selections that one call deletes
)

// An inbox is the subscriber of the router's second handler: it delivers the rows of a
// [timer.Inbox] that are due. Rows that exceeded a quota are delivered in the order of their
// arrival, each when the limiter has allowed the one before it, until it allows one no more.
type inbox struct {
	*inboxState
	handlers *Handlers
	outcomes chan outcome  // never full
	ended    chan struct{} // closed when nothing is in flight any more
	claims   atomic.Int64  // calls of TakeInbox
	busy     atomic.Bool   // rows are claimed, or their outcomes are not written yet

	// These are for the goroutine of the subscription.
	rows     map[int64]*row
	queues   map[timer.TenantID]*queue
	deleted  []int64              // rows that are done
	deferred []timer.InboxMessage // rows that are handled again
	more     bool                 // the last call of TakeInbox has found rows
	wall     time.Time            // when step was called last, by a clock that may be set
	early    bool                 // rows may wait for a time that a clock which was ahead has set
	purgeAt  time.Time
	hurryAt  time.Time // from when on selections are purged sooner if a tenant has many
	failures int       // calls of the store in a row
	retryAt  time.Time // of the last of these
}

// A row is a message of the inbox in flight.
type row struct {
	timer.InboxMessage
	inbox     *inbox
	isAllowed bool
}

// A queue has rows of one tenant that are in flight, in their order.
type queue struct {
	waiting   []*row // not delivered yet
	delivered int
	undecided *row // delivered, and the limiter was not asked yet
}

// An outcome is the result of handling a row.
type outcome struct {
	row     *row
	allowed bool // by the limiter; its handling goes on
	deleted bool // it is done; otherwise it waits as next says
	next    timer.InboxMessage
}

func newInbox(h *Handlers, state *inboxState) *inbox {
	return &inbox{
		inboxState: state, handlers: h, outcomes: make(chan outcome, 2*maxRows+1), ended: make(chan struct{}),
		rows: make(map[int64]*row), queues: make(map[timer.TenantID]*queue),
		purgeAt: state.clock.Now().Add(purgePause), // after a restart a producer may publish a selection again
	}
}

type rowKey struct{}

// rowOf returns the row that a message is of, or nil if it came from the broker.
func rowOf(msg *message.Message) *row {
	r, _ := msg.Context().Value(rowKey{}).(*row)
	return r
}

// Subscribe delivers rows until ctx is done.
func (b *inbox) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(b.ended)
		for ctx.Err() == nil {
			b.step(ctx, out)
		}
		close(out)
		b.giveBack()
	}()
	return out, nil
}

// Close does nothing: the subscription ends with its context.
func (b *inbox) Close() error { return nil }

// step handles the rows that are due, and waits for more, for at most idlePause, since the clock may be
// set.
func (b *inbox) step(ctx context.Context, out chan<- *message.Message) {
	now := b.clock.Now()
	wall := now.Round(0)
	if b.wall.IsZero() || b.wall.Sub(wall) > claimTime {
		b.setBack(now)
	}
	b.wall = wall
	next := b.retryAt
	if !next.After(now) {
		b.write(b.handlers.working)
		b.busy.Store(len(b.rows)+len(b.deleted)+len(b.deferred) > 0)
		b.deliver(ctx, out)
		switch next = b.takeAt(); {
		case len(b.rows) >= maxRows:
			next = now.Add(pollPause)
		case !next.After(now):
			b.take(b.handlers.working, now)
			return
		}
	}
	due := time.NewTimer(max(time.Millisecond, min(next.Sub(now), idlePause)))
	defer due.Stop()
	select {
	case <-ctx.Done():
	case o := <-b.outcomes:
		b.settle(o)
	case <-b.wake:
	case <-due.C:
	}
}

// setBack forgets all times that were set by the clock before it was set back, or before the start.
func (b *inbox) setBack(now time.Time) {
	b.early, b.retryAt, b.hurryAt = true, time.Time{}, time.Time{}
	b.purgeAt = now.Add(purgePause)
	b.forgetTimes()
}

// take claims rows that are due.
func (b *inbox) take(ctx context.Context, now time.Time) {
	b.takeNext(now.Add(idlePause)) // a message that comes from now on sets another time
	idle := false
	defer func() {
		if !idle {
			b.sooner(now.Add(pollPause))
		}
	}()
	if b.early && b.failed(b.inbox.HastenInbox(ctx, now, now.Add(retry.Inbox.Longest))) {
		return
	}
	b.early = false
	if b.failed(b.purge(ctx, now)) {
		return
	}
	purgeAt := b.purgeAt
	if b.many.Load() && b.hurryAt.Before(purgeAt) {
		purgeAt = b.hurryAt
	}
	defer b.sooner(purgeAt)
	next := now
	if !b.more {
		var err error
		if next, err = b.inbox.NextInbox(ctx); b.failed(err) {
			return
		}
	}
	if next.IsZero() {
		b.replace(nil)
		idle = true
		return
	}
	if b.failed(b.count(ctx, now)) {
		return
	}
	if next.After(now) {
		b.sooner(next)
		return
	}
	b.claims.Add(1)
	b.busy.Store(true)
	taken, err := b.inbox.TakeInbox(ctx, now, now.Add(claimTime), maxRows-len(b.rows), maxTenantRows, b.without(now))
	if b.failed(err) {
		return
	}
	b.more = len(taken) > 0
	if !b.more { // all that is due is of tenants that were left out
		b.sooner(now.Add(gatePause))
		return
	}
	b.sooner(now.Add(takePause))
	for _, m := range taken {
		if b.rows[m.Seq] != nil {
			continue // its handling takes longer than the claim
		}
		r := &row{InboxMessage: m, inbox: b}
		b.rows[m.Seq] = r
		q := b.queues[m.TenantID]
		if q == nil {
			q = new(queue)
			b.queues[m.TenantID] = q
		}
		q.waiting = append(q.waiting, r)
	}
}

// purge deletes selections that were applied and that nothing can meet any more: at intervals, and
// as fast as they come once a tenant has many.
func (b *inbox) purge(ctx context.Context, now time.Time) error {
	age, hurried := purgeAge, b.many.Load() && !now.Before(b.hurryAt)
	if hurried {
		age = purgeSoonest
		b.many.Store(false)
	} else if now.Before(b.purgeAt) {
		return nil
	}
	purged, err := b.inbox.PurgeApplied(ctx, now.Add(-age), purgeSize)
	ended := b.clock.Now()
	b.purgeAt, b.hurryAt = now.Add(purgePause), ended.Add(max(gatePause, countShare*ended.Sub(now)))
	switch {
	case purged == purgeSize && hurried:
		b.many.Store(true)
		b.purgeAt, b.hurryAt = now.Add(takePause), now.Add(takePause)
	case purged == purgeSize:
		b.purgeAt = now.Add(gatePause)
	}
	return err
}

// without returns the tenants of which no row is taken now: their quota is exceeded, or they
// have enough in flight.
func (b *inbox) without(now time.Time) []timer.TenantID {
	without := b.closed(now)
	for tenant, q := range b.queues {
		if q.delivered+len(q.waiting) >= maxTenantRows && !slices.Contains(without, tenant) {
			without = append(without, tenant)
		}
	}
	return without
}

// deliver delivers rows whose turn it is.
func (b *inbox) deliver(ctx context.Context, out chan<- *message.Message) {
	for tenant, q := range b.queues {
		closed := b.isClosed(tenant)
		for len(q.waiting) > 0 {
			r := q.waiting[0]
			overQuota := r.Reason == timer.WaitQuota
			if overQuota && !closed && q.undecided != nil {
				break
			}
			q.waiting = q.waiting[1:]
			if overQuota && closed {
				b.back(r)
				continue
			}
			if overQuota {
				q.undecided = r
			}
			q.delivered++
			select {
			case out <- r.message(ctx):
			case <-ctx.Done():
				b.settle(outcome{row: r, next: r.again(b.clock.Now())})
			}
		}
		if q.delivered == 0 && len(q.waiting) == 0 {
			delete(b.queues, tenant)
		}
	}
}

// message returns the message of a row, as the broker has delivered it.
func (r *row) message(ctx context.Context) *message.Message {
	msg := broker.Received(r.MessageID, r.Topic, r.Body)
	maps.Copy(msg.Metadata, r.Headers)
	if r.Position != "" {
		msg.Metadata[broker.MetaPosition] = r.Position
	}
	msg.SetContext(context.WithValue(ctx, rowKey{}, r))
	return msg
}

// again returns a row as it is when it may be taken at once. What exceeds a quota keeps the
// order of its arrival.
func (r *row) again(now time.Time) timer.InboxMessage {
	m := r.InboxMessage
	if m.RetryAt = now; m.Reason == timer.WaitQuota {
		m.RetryAt = inOrder(m, now)
	}
	return m
}

// inOrder returns when a message that exceeds a quota may be taken: at any time, in the order of arrival. A clock
// that was ahead may have set when it arrived.
func inOrder(m timer.InboxMessage, now time.Time) time.Time {
	if m.ArrivedAt.After(now) {
		return now
	}
	return m.ArrivedAt
}

// allowed says that the limiter has allowed the commands of a row, so that it may be asked
// about the next row.
func (r *row) allowed() {
	if !r.isAllowed {
		r.isAllowed = true
		r.inbox.outcomes <- outcome{row: r, allowed: true}
	}
}

// done deletes a row, soon.
func (r *row) done() { r.inbox.outcomes <- outcome{row: r, deleted: true} }

// wait has a row handled again.
func (r *row) wait(next timer.InboxMessage) { r.inbox.outcomes <- outcome{row: r, next: next} }

// settle records the outcome of a row.
func (b *inbox) settle(o outcome) {
	q := b.queues[o.row.TenantID]
	if q.undecided == o.row {
		q.undecided = nil
	}
	switch {
	case o.allowed:
		return
	case o.deleted:
		b.deleted = append(b.deleted, o.row.Seq)
		b.add(o.row.InboxMessage, -1)
	default:
		b.deferred = append(b.deferred, o.next)
	}
	delete(b.rows, o.row.Seq)
	q.delivered--
	b.sooner(b.clock.Now().Add(takePause)) // others of its tenant may wait
}

// back gives a row back that was not delivered, or whose handler has not ended.
func (b *inbox) back(r *row) {
	delete(b.rows, r.Seq)
	b.deferred = append(b.deferred, r.again(b.clock.Now()))
}

// write writes the outcomes of rows. Failed writes are repeated later.
func (b *inbox) write(ctx context.Context) {
	for len(b.outcomes) > 0 { // no other goroutine receives
		b.settle(<-b.outcomes)
	}
	if len(b.deleted) > 0 && !b.failed(b.inbox.DeleteInbox(ctx, b.deleted...)) {
		b.deleted = nil
	}
	if len(b.deferred) > 0 && !b.failed(b.inbox.DeferInbox(ctx, b.deferred...)) {
		for _, m := range b.deferred {
			b.sooner(m.RetryAt)
		}
		b.deferred = nil
	}
}

// failed notes an error of the store, and reports whether there is one.
func (b *inbox) failed(err error) bool {
	if err == nil {
		b.failures, b.retryAt = 0, time.Time{}
		return false
	}
	b.failures++
	b.retryAt = b.clock.Now().Add(retry.Database.After(b.failures))
	b.handlers.failed.Note(1, []any{"failure", "the inbox could not be read or changed"}, "first_error", err.Error())
	b.handlers.endIfFatal(err)
	return true
}

// giveBack waits for the handlers of rows, as long as they may take, and gives back all rows
// that are left, so that the next start need not wait for the end of their claim.
func (b *inbox) giveBack() {
	for _, q := range b.queues {
		for _, r := range q.waiting {
			b.back(r)
		}
	}
	working := b.handlers.working
	for len(b.rows) > 0 && working.Err() == nil {
		select {
		case o := <-b.outcomes:
			b.settle(o)
		case <-working.Done():
		}
	}
	for _, r := range b.rows {
		b.back(r)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(working), giveBackTime)
	defer cancel()
	b.write(ctx)
}
