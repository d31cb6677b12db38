package fault

import (
	"context"
	"database/sql"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A Full is all that a store implements.
type Full interface {
	timer.Store
	timer.Reader
	timer.Purger
	timer.Operator
	timer.Recoverer
	Join(tx *sql.Tx) timer.Commands
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error
	TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error)
	Outbox() outbox.Outbox
	Prepare(ctx context.Context) error
	Check(ctx context.Context) error
	Identity(ctx context.Context) (id, name string, err error)
	Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error)
	Watch(ctx context.Context) error
	Now(ctx context.Context) (time.Time, error)
	Nodes(ctx context.Context) ([]timer.Node, error)
	Instances() int
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

// TakeEvent fails as "take_event".
func (s *Store) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error) {
	return get(s.Decide, "take_event", func() (bool, error) { return s.Full.TakeEvent(ctx, tx, row) })
}

// NextDue fails as "next_due".
func (s *Store) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	return get(s.Decide, "next_due", func() (time.Time, error) { return s.Full.NextDue(ctx, after) })
}

// Get fails as "get".
func (s *Store) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	return get(s.Decide, "get", func() (timer.Entry, error) { return s.Full.Get(ctx, key) })
}

// List fails as "list".
func (s *Store) List(ctx context.Context, tenant timer.TenantID, filter timer.Filter) (timer.Page, error) {
	return get(s.Decide, "list", func() (timer.Page, error) { return s.Full.List(ctx, tenant, filter) })
}

// Due fails as "due".
func (s *Store) Due(ctx context.Context, before time.Time, after string, limit int) (timer.DuePage, error) {
	return get(s.Decide, "due", func() (timer.DuePage, error) { return s.Full.Due(ctx, before, after, limit) })
}

// Overdue fails as "overdue".
func (s *Store) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (timer.Overdue, error) {
	return get(s.Decide, "overdue", func() (timer.Overdue, error) { return s.Full.Overdue(ctx, tenant, now) })
}

// Delivery fails as "delivery".
func (s *Store) Delivery(ctx context.Context, eventID string) (timer.Delivery, error) {
	return get(s.Decide, "delivery", func() (timer.Delivery, error) { return s.Full.Delivery(ctx, eventID) })
}

// Correlated fails as "correlated".
func (s *Store) Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error) {
	return get(s.Decide, "correlated", func() ([]timer.Entry, error) { return s.Full.Correlated(ctx, correlationID, limit) })
}

// Stats fails as "stats".
func (s *Store) Stats(ctx context.Context) (timer.Stats, error) {
	return get(s.Decide, "stats", func() (timer.Stats, error) { return s.Full.Stats(ctx) })
}

// Counts fails as "counts".
func (s *Store) Counts(ctx context.Context, tenant timer.TenantID) (timer.Counts, error) {
	return get(s.Decide, "counts", func() (timer.Counts, error) { return s.Full.Counts(ctx, tenant) })
}

// Tenants fails as "tenants".
func (s *Store) Tenants(ctx context.Context, after timer.TenantID, limit int) ([]timer.TenantCounts, error) {
	return get(s.Decide, "tenants", func() ([]timer.TenantCounts, error) { return s.Full.Tenants(ctx, after, limit) })
}

// Upcoming fails as "upcoming".
func (s *Store) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n int) ([]int64, error) {
	return get(s.Decide, "upcoming", func() ([]int64, error) { return s.Full.Upcoming(ctx, tenant, from, width, n) })
}

// Parked fails as "parked".
func (s *Store) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) ([]timer.ParkedEvent, error) {
	return get(s.Decide, "parked", func() ([]timer.ParkedEvent, error) { return s.Full.Parked(ctx, tenant, after, limit) })
}

// Firing fails as "firing".
func (s *Store) Firing(ctx context.Context) (timer.Pause, error) {
	return get(s.Decide, "firing", func() (timer.Pause, error) { return s.Full.Firing(ctx) })
}

// RetryParked fails as "retry_parked".
func (s *Store) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (int, error) {
	return get(s.Decide, "retry_parked", func() (int, error) { return s.Full.RetryParked(ctx, now, seqs...) })
}

// DiscardParked fails as "discard_parked".
func (s *Store) DiscardParked(ctx context.Context, seqs ...int64) (int, error) {
	return get(s.Decide, "discard_parked", func() (int, error) { return s.Full.DiscardParked(ctx, seqs...) })
}

// PauseFiring fails as "pause_firing".
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	return s.Decide.call("pause_firing", func() error { return s.Full.PauseFiring(ctx, p) })
}

// ResumeFiring fails as "resume_firing".
func (s *Store) ResumeFiring(ctx context.Context) error {
	return s.Decide.call("resume_firing", func() error { return s.Full.ResumeFiring(ctx) })
}

// Forget fails as "forget".
func (s *Store) Forget(ctx context.Context, tenant timer.TenantID, limit int) (timer.Counts, error) {
	return get(s.Decide, "forget", func() (timer.Counts, error) { return s.Full.Forget(ctx, tenant, limit) })
}

// Purge fails as "purge".
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (int, error) {
	return get(s.Decide, "purge", func() (int, error) { return s.Full.Purge(ctx, before, limit) })
}

// Noted fails as "noted".
func (s *Store) Noted(ctx context.Context) (timer.Noted, error) {
	return get(s.Decide, "noted", func() (timer.Noted, error) { return s.Full.Noted(ctx) })
}

// Fired fails as "fired".
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (int, error) {
	return get(s.Decide, "fired", func() (int, error) { return s.Full.Fired(ctx, keep, events...) })
}

// ReplacePositions fails as "replace_positions".
func (s *Store) ReplacePositions(ctx context.Context, positions []timer.Position) error {
	return s.Decide.call("replace_positions", func() error { return s.Full.ReplacePositions(ctx, positions) })
}

// Alone fails as "alone", after what it runs or before it began.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error {
	return s.Decide.call("alone", func() error { return s.Full.Alone(ctx, fn) })
}

// Outbox returns the outbox, with a [Table] or [Shards] that fail.
func (s *Store) Outbox() outbox.Outbox {
	o := s.Full.Outbox()
	if shards := o.Shards(); shards != nil {
		return outbox.Sharded(&Shards{shards, s.Decide})
	}
	return outbox.Single(&Table{o.Table(), s.Decide})
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

// Delete fails as "delete".
func (t *Table) Delete(ctx context.Context, rows ...outbox.Place) error {
	return t.Decide.call("delete", func() error { return t.Table.Delete(ctx, rows...) })
}

// Defer fails as "defer".
func (t *Table) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	return t.Decide.call("defer", func() error { return t.Table.Defer(ctx, rows...) })
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
func (s *Shards) Own(ctx context.Context) (outbox.Lease, error) {
	return get(s.Decide, "own", func() (outbox.Lease, error) { return s.lease(s.Shards.Own(ctx)) })
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

// get runs do as the decision has it, and returns what it returned.
func get[T any](d Decide, op string, do func() (T, error)) (result T, err error) {
	err = d.call(op, func() (err error) {
		result, err = do()
		return err
	})
	return result, err
}
