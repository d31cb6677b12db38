package fault_test

import (
	"context"
	"database/sql"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// An inner is every port at once. It does nothing and remembers what was called.
type inner struct {
	called []string
}

func (i *inner) note(method string) error {
	i.called = append(i.called, method)
	return nil
}

func (i *inner) Schedule(context.Context, time.Time, ...timer.ScheduleTimer) ([]timer.Result, error) {
	return nil, i.note("Schedule")
}

func (i *inner) Cancel(context.Context, time.Time, ...timer.CancelTimer) ([]timer.Result, error) {
	return nil, i.note("Cancel")
}

func (i *inner) Update(_ context.Context, fn func(timer.Tx) error) error {
	_ = i.note("Update")
	return fn(i)
}

func (i *inner) Transact(_ context.Context, fn func(*sql.Tx) error) error {
	_ = i.note("Transact")
	return fn(nil)
}

func (i *inner) TakeEvent(context.Context, *sql.Tx, outbox.Place) (bool, error) {
	return true, i.note("TakeEvent")
}

func (i *inner) Join(*sql.Tx) timer.Commands { return i }

func (i *inner) NextDue(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, i.note("NextDue")
}

func (i *inner) Reach(context.Context, time.Time, int, timer.Allowance) ([]timer.Entry, error) {
	return nil, i.note("Reach")
}

func (i *inner) Emit(context.Context, ...timer.DueTimeReached) error { return i.note("Emit") }

func (i *inner) EmitReceipts(context.Context, ...timer.Receipt) error { return i.note("EmitReceipts") }

func (i *inner) Get(context.Context, timer.Key) (timer.Entry, error) {
	return timer.Entry{}, i.note("Get")
}

func (i *inner) List(context.Context, timer.Filter) (timer.Page, error) {
	return timer.Page{}, i.note("List")
}

func (i *inner) Overdue(context.Context, timer.TenantID, time.Time) (timer.Overdue, error) {
	return timer.Overdue{}, i.note("Overdue")
}

func (i *inner) Delivery(context.Context, string) (timer.Delivery, error) {
	return timer.Delivery{}, i.note("Delivery")
}

func (i *inner) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{}, i.note("Stats")
}

func (i *inner) Tenants(context.Context, timer.TenantID, int) ([]timer.TenantCounts, error) {
	return nil, i.note("Tenants")
}

func (i *inner) Upcoming(context.Context, timer.TenantID, time.Time, time.Duration, int) ([]int64, error) {
	return nil, i.note("Upcoming")
}

func (i *inner) Parked(context.Context, timer.TenantID, int64, int) ([]timer.ParkedEvent, error) {
	return nil, i.note("Parked")
}

func (i *inner) Unclaimed(context.Context, int) ([]timer.ServiceCallID, error) {
	return nil, i.note("Unclaimed")
}

func (i *inner) Firing(context.Context, time.Time) (timer.Pauses, error) {
	return nil, i.note("Firing")
}

func (i *inner) RetryParked(context.Context, time.Time, ...int64) (int, error) {
	return 0, i.note("RetryParked")
}

func (i *inner) DiscardParked(context.Context, ...int64) (int, error) {
	return 0, i.note("DiscardParked")
}

func (i *inner) PauseFiring(context.Context, timer.Pause) error { return i.note("PauseFiring") }

func (i *inner) ResumeFiring(context.Context, timer.TenantID) error {
	return i.note("ResumeFiring")
}

func (i *inner) Forget(context.Context, timer.TenantID, int) (timer.Counts, error) {
	return timer.Counts{}, i.note("Forget")
}

func (i *inner) Nodes(context.Context) ([]timer.Node, error) { return nil, i.note("Nodes") }

func (i *inner) Purge(context.Context, time.Time, int) (int, error) {
	return 0, i.note("Purge")
}

func (i *inner) CommitPositions(func() []timer.Position) {}

func (i *inner) Noted(context.Context) (timer.Noted, error) { return timer.Noted{}, i.note("Noted") }

func (i *inner) Fired(context.Context, time.Duration, ...timer.DueTimeReached) (int, error) {
	return 0, i.note("Fired")
}

func (i *inner) ReplacePositions(context.Context, []timer.Position) error {
	return i.note("ReplacePositions")
}

func (i *inner) Alone(context.Context, func(context.Context) error) error { return i.note("Alone") }

func (i *inner) Outbox() outbox.Outbox { return outbox.Single(i).With(i) }

func (i *inner) Timers() timer.Reader { return i }

func (i *inner) Operator() timer.Operator { return i }

func (i *inner) Recovery() timer.Recoverer { return i }

func (i *inner) Shared() store.Shared { return nil }

func (i *inner) Head(context.Context, int64, int) ([]outbox.Row, error) { return nil, i.note("Head") }

func (i *inner) Deferred(context.Context, time.Time, string, int, int) ([]outbox.Row, error) {
	return nil, i.note("Deferred")
}

func (i *inner) Delete(context.Context, ...outbox.Place) error { return i.note("Delete") }

func (i *inner) Defer(context.Context, ...outbox.Deferral) error { return i.note("Defer") }

func (i *inner) Claim(context.Context, string, int) (int, error) { return 0, i.note("Claim") }

func (i *inner) Hasten(context.Context, time.Time) error { return i.note("Hasten") }

func (i *inner) Park(context.Context, time.Time, outbox.Place, string) error { return i.note("Park") }

func (i *inner) Own(context.Context) (outbox.Lease, error) { return nil, i.note("Own") }

func (i *inner) TakeOver(context.Context) (outbox.Lease, error) { return nil, i.note("TakeOver") }

func (i *inner) Publish(_ context.Context, messages ...broker.Message) []error {
	_ = i.note("Publish")
	return make([]error, len(messages))
}

func (i *inner) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	messages := make(chan *message.Message)
	close(messages)
	return messages, i.note("Subscribe")
}

func (i *inner) Close() error { return nil }

func (i *inner) Prepare(context.Context) error { return nil }

func (i *inner) Watch(context.Context) error { return nil }

func (i *inner) Check(context.Context) error { return nil }

func (i *inner) Now(context.Context) (time.Time, error) { return time.Time{}, nil }

func (i *inner) Identity(context.Context) (id, name string, err error) {
	return "", "", i.note("Identity")
}

func (i *inner) Attach(context.Context, string, string, bool) (other string, err error) {
	return "", i.note("Attach")
}

func (i *inner) Instances() int { return 1 }
