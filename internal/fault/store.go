package fault

import (
	"context"
	"database/sql"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Full is all that a store implements, see app.Store.
type Full interface {
	timer.Store
	Timers() timer.Reader
	Operator() timer.Operator
	Recovery() timer.Recoverer
	Inbox() timer.Inbox
	Outbox() outbox.Outbox
	Shared() store.Shared
	Join(tx *sql.Tx) timer.Transaction
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error
	Prepare(ctx context.Context) error
	Lock(ctx context.Context) (unlock func() error, err error)
	Identity(ctx context.Context) (id, name string, err error)
	Check(ctx context.Context) error
	Watch(ctx context.Context) error
}

// A Store is a store whose calls fail as Decide has it, each under the name of
// its method, such as "next_due". Nothing fails that is asked of Full itself.
type Store struct {
	Full
	Decide Decide
}

// Schedule fails as "schedule".
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return get(s.Decide, "schedule", func() ([]timer.Result, error) { return s.Full.Schedule(ctx, now, commands...) })
}

// Cancel fails as "cancel".
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return get(s.Decide, "cancel", func() ([]timer.Result, error) { return s.Full.Cancel(ctx, now, commands...) })
}

// Update fails as "update", after its commit or before it began. What happens
// inside it fails as "reach" and "emit".
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	return s.Decide.call("update", func() error {
		return s.Full.Update(ctx, func(inner timer.Tx) error { return fn(&tx{inner, s.Decide}) })
	})
}

// Transact fails as "transact", after its commit or before it began.
func (s *Store) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return s.Decide.call("transact", func() error { return s.Full.Transact(ctx, fn) })
}

// NextDue fails as "next_due".
func (s *Store) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	return get(s.Decide, "next_due", func() (time.Time, error) { return s.Full.NextDue(ctx, after) })
}

// Timers returns a reader whose calls fail.
func (s *Store) Timers() timer.Reader { return &reader{s.Full.Timers(), s.Decide} }

// Operator returns an operator whose calls fail.
func (s *Store) Operator() timer.Operator { return &operator{s.Full.Operator(), s.Decide} }

// Recovery returns a recoverer whose calls fail.
func (s *Store) Recovery() timer.Recoverer { return &recoverer{s.Full.Recovery(), s.Decide} }

// Inbox returns an inbox whose calls fail.
func (s *Store) Inbox() timer.Inbox { return &inbox{s.Full.Inbox(), s.Decide} }

// Outbox returns the outbox, with a [Table] or [Shards] that fail.
func (s *Store) Outbox() outbox.Outbox {
	o := s.Full.Outbox()
	o.Taker = &taker{o.Taker, s.Decide}
	if o.Shards != nil {
		o.Shards = &Shards{o.Shards, s.Decide}
	} else {
		o.Table = &Table{o.Table, s.Decide}
	}
	return o
}

// A reader is a [timer.Reader] whose calls fail.
type reader struct {
	timer.Reader
	decide Decide
}

// Get fails as "get".
func (r *reader) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	return get(r.decide, "get", func() (timer.Entry, error) { return r.Reader.Get(ctx, key) })
}

// List fails as "list".
func (r *reader) List(ctx context.Context, filter timer.Filter) (timer.Page, error) {
	return get(r.decide, "list", func() (timer.Page, error) { return r.Reader.List(ctx, filter) })
}

// Overdue fails as "overdue".
func (r *reader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (timer.Overdue, error) {
	return get(r.decide, "overdue", func() (timer.Overdue, error) { return r.Reader.Overdue(ctx, tenant, now) })
}

// Delivery fails as "delivery".
func (r *reader) Delivery(ctx context.Context, eventID string) (timer.Delivery, error) {
	return get(r.decide, "delivery", func() (timer.Delivery, error) { return r.Reader.Delivery(ctx, eventID) })
}

// Stats fails as "stats".
func (r *reader) Stats(ctx context.Context, tenant timer.TenantID) (timer.Stats, error) {
	return get(r.decide, "stats", func() (timer.Stats, error) { return r.Reader.Stats(ctx, tenant) })
}

// Tenants fails as "tenants".
func (r *reader) Tenants(ctx context.Context, after timer.TenantID, limit int) ([]timer.TenantCounts, error) {
	return get(r.decide, "tenants", func() ([]timer.TenantCounts, error) { return r.Reader.Tenants(ctx, after, limit) })
}

// Upcoming fails as "upcoming".
func (r *reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error) {
	return get(r.decide, "upcoming", func() ([]int64, error) { return r.Reader.Upcoming(ctx, tenant, from, width, n, limit) })
}

// Parked fails as "parked".
func (r *reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) ([]timer.ParkedEvent, error) {
	return get(r.decide, "parked", func() ([]timer.ParkedEvent, error) { return r.Reader.Parked(ctx, tenant, before, limit) })
}

// Firing fails as "firing".
func (r *reader) Firing(ctx context.Context, now time.Time) (timer.Pauses, error) {
	return get(r.decide, "firing", func() (timer.Pauses, error) { return r.Reader.Firing(ctx, now) })
}

// An operator is a [timer.Operator] whose calls fail.
type operator struct {
	timer.Operator
	decide Decide
}

// Failing fails as "failing".
func (r *reader) Failing(ctx context.Context) ([]timer.FailingDestination, error) {
	return get(r.decide, "failing", func() ([]timer.FailingDestination, error) { return r.Reader.Failing(ctx) })
}

// Unclaimed fails as "unclaimed".
func (r *reader) Unclaimed(ctx context.Context, limit int) ([]timer.ServiceCallID, error) {
	return get(r.decide, "unclaimed", func() ([]timer.ServiceCallID, error) { return r.Reader.Unclaimed(ctx, limit) })
}

// RetryParked fails as "retry_parked".
func (o *operator) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (int, error) {
	return get(o.decide, "retry_parked", func() (int, error) { return o.Operator.RetryParked(ctx, now, seqs...) })
}

// DiscardParked fails as "discard_parked".
func (o *operator) DiscardParked(ctx context.Context, seqs ...int64) (int, error) {
	return get(o.decide, "discard_parked", func() (int, error) { return o.Operator.DiscardParked(ctx, seqs...) })
}

// Decide fails as "decide".
func (o *operator) Decide(ctx context.Context, d timer.Decision) error {
	return o.decide.call("decide", func() error { return o.Operator.Decide(ctx, d) })
}

// Decisions fails as "decisions".
func (o *operator) Decisions(ctx context.Context) ([]timer.Decision, error) {
	return get(o.decide, "decisions", func() ([]timer.Decision, error) { return o.Operator.Decisions(ctx) })
}

// MarkPublished fails as "mark_published".
func (o *operator) MarkPublished(ctx context.Context, d timer.Decision) error {
	return o.decide.call("mark_published", func() error { return o.Operator.MarkPublished(ctx, d) })
}

// Forget fails as "forget".
func (o *operator) Forget(ctx context.Context, tenant timer.TenantID, until time.Time, limit int) (timer.Counts, error) {
	return get(o.decide, "forget", func() (timer.Counts, error) { return o.Operator.Forget(ctx, tenant, until, limit) })
}

// Purge fails as "purge".
func (o *operator) Purge(ctx context.Context, before time.Time, limit int) (int, error) {
	return get(o.decide, "purge", func() (int, error) { return o.Operator.Purge(ctx, before, limit) })
}

// Nodes fails as "nodes".
func (o *operator) Nodes(ctx context.Context) ([]timer.Node, error) {
	return get(o.decide, "nodes", func() ([]timer.Node, error) { return o.Operator.Nodes(ctx) })
}

// A recoverer is a [timer.Recoverer] whose calls fail.
type recoverer struct {
	timer.Recoverer
	decide Decide
}

// Known fails as "known".
func (r *recoverer) Known(ctx context.Context) (timer.Known, error) {
	return get(r.decide, "known", func() (timer.Known, error) { return r.Recoverer.Known(ctx) })
}

// Unpublished fails as "unpublished".
func (r *recoverer) Unpublished(ctx context.Context) (time.Time, error) {
	return get(r.decide, "unpublished", func() (time.Time, error) { return r.Recoverer.Unpublished(ctx) })
}

// Fired fails as "fired".
func (r *recoverer) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (int, error) {
	return get(r.decide, "fired", func() (int, error) { return r.Recoverer.Fired(ctx, keep, events...) })
}

// Advance fails as "advance".
func (r *recoverer) Advance(ctx context.Context, numbers ...timer.Number) error {
	return r.decide.call("advance", func() error { return r.Recoverer.Advance(ctx, numbers...) })
}

// Alone fails as "alone", before fn is called or after it.
func (r *recoverer) Alone(ctx context.Context, fn func(context.Context) error) error {
	return r.decide.call("alone", func() error { return r.Recoverer.Alone(ctx, fn) })
}

// A taker is an [outbox.Taker] whose calls fail.
type taker struct {
	outbox.Taker
	decide Decide
}

// TakeEvent fails as "take_event".
func (t *taker) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error) {
	return get(t.decide, "take_event", func() (bool, error) { return t.Taker.TakeEvent(ctx, tx, row) })
}

// A Table is an outbox whose calls fail under the names of its methods.
type Table struct {
	outbox.Table
	Decide Decide
}

// Head fails as "head".
func (t *Table) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	return get(t.Decide, "head", func() ([]outbox.Row, error) { return t.Table.Head(ctx, after, limit) })
}

// Deferred fails as "deferred".
func (t *Table) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	return get(t.Decide, "deferred", func() ([]outbox.Row, error) { return t.Table.Deferred(ctx, now, from, limit, each) })
}

// NextRetry fails as "next_retry".
func (t *Table) NextRetry(ctx context.Context, after time.Time) (time.Time, error) {
	return get(t.Decide, "next_retry", func() (time.Time, error) { return t.Table.NextRetry(ctx, after) })
}

// Delete fails as "delete".
func (t *Table) Delete(ctx context.Context, rows ...outbox.Place) error {
	return t.Decide.call("delete", func() error { return t.Table.Delete(ctx, rows...) })
}

// Defer fails as "defer".
func (t *Table) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	return t.Decide.call("defer", func() error { return t.Table.Defer(ctx, rows...) })
}

// Claim fails as "claim".
func (t *Table) Claim(ctx context.Context, prefix string, limit int) (int, error) {
	return get(t.Decide, "claim", func() (int, error) { return t.Table.Claim(ctx, prefix, limit) })
}

// Hasten fails as "hasten".
func (t *Table) Hasten(ctx context.Context, now time.Time) error {
	return t.Decide.call("hasten", func() error { return t.Table.Hasten(ctx, now) })
}

// Park fails as "park".
func (t *Table) Park(ctx context.Context, now time.Time, row outbox.Place, reason string) error {
	return t.Decide.call("park", func() error { return t.Table.Park(ctx, now, row, reason) })
}

// Shards are an outbox in shards whose calls fail under the names of their methods.
type Shards struct {
	outbox.Shards
	Decide Decide
}

// Own fails as "own".
func (s *Shards) Own(ctx context.Context, r outbox.Receivers) (outbox.Lease, error) {
	return get(s.Decide, "own", func() (outbox.Lease, error) { return s.lease(s.Shards.Own(ctx, r)) })
}

// TakeOver fails as "take_over".
func (s *Shards) TakeOver(ctx context.Context) (outbox.Lease, error) {
	return get(s.Decide, "take_over", func() (outbox.Lease, error) { return s.lease(s.Shards.TakeOver(ctx)) })
}

// lease returns one whose table fails.
func (s *Shards) lease(l outbox.Lease, err error) (outbox.Lease, error) {
	if l == nil {
		return nil, err
	}
	return struct {
		*Table
		tenure
	}{&Table{l, s.Decide}, l}, err
}

// A tenure is a lease without its table.
type tenure interface {
	Shard() int
	Lost() <-chan struct{}
	Release()
}

// A tx is a transaction whose calls fail.
type tx struct {
	timer.Tx
	decide Decide
}

// Reach fails as "reach".
func (t *tx) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	return get(t.decide, "reach", func() ([]timer.Entry, error) { return t.Tx.Reach(ctx, now, limit, allow) })
}

// EmitReceipts fails as "emit_receipts".
func (t *tx) EmitReceipts(ctx context.Context, receipts ...timer.Receipt) error {
	return t.decide.call("emit_receipts", func() error { return t.Tx.EmitReceipts(ctx, receipts...) })
}

// Emit fails as "emit".
func (t *tx) Emit(ctx context.Context, events ...timer.DueTimeReached) error {
	return t.decide.call("emit", func() error { return t.Tx.Emit(ctx, events...) })
}

// get calls do, fails as decided, and returns the result of do.
func get[T any](d Decide, op string, do func() (T, error)) (result T, err error) {
	err = d.call(op, func() (err error) {
		result, err = do()
		return err
	})
	return result, err
}
