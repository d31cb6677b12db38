package fault_test

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// An inner is every port at once. It does nothing and remembers what was called.
type inner struct{ called []string }

func (i *inner) note(method string) error {
	i.called = append(i.called, method)
	return nil
}

func (i *inner) Schedule(context.Context, time.Time, ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	return nil, i.note("Schedule")
}

func (i *inner) Cancel(context.Context, time.Time, ...timer.CancelTimer) ([]timer.Outcome, error) {
	return nil, i.note("Cancel")
}

func (i *inner) Update(_ context.Context, fn func(timer.Tx) error) error {
	_ = i.note("Update")
	return fn(i)
}

func (i *inner) NextDue(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, i.note("NextDue")
}

func (i *inner) Reach(context.Context, time.Time, int, timer.Allowance) ([]timer.Entry, error) {
	return nil, i.note("Reach")
}

func (i *inner) Emit(context.Context, ...timer.DueTimeReached) error { return i.note("Emit") }

func (i *inner) Get(context.Context, timer.Key) (timer.Entry, error) {
	return timer.Entry{}, i.note("Get")
}

func (i *inner) List(context.Context, timer.TenantID, timer.Filter) (timer.Page, error) {
	return timer.Page{}, i.note("List")
}

func (i *inner) Correlated(context.Context, string, int) ([]timer.Entry, error) {
	return nil, i.note("Correlated")
}

func (i *inner) Stats(context.Context) (timer.Stats, error) { return timer.Stats{}, i.note("Stats") }

func (i *inner) Counts(context.Context, timer.TenantID) (timer.Counts, error) {
	return timer.Counts{}, i.note("Counts")
}

func (i *inner) Tenants(context.Context, timer.TenantID, int) ([]timer.TenantCounts, error) {
	return nil, i.note("Tenants")
}

func (i *inner) Purge(context.Context, time.Time, int) (int, error) {
	return 0, i.note("Purge")
}

func (i *inner) Head(context.Context, int64, int) ([]outbox.Row, error) { return nil, i.note("Head") }

func (i *inner) Delete(context.Context, ...int64) error { return i.note("Delete") }

func (i *inner) Fail(context.Context, int64, string) error { return i.note("Fail") }

func (i *inner) Park(context.Context, time.Time, int64, string) error { return i.note("Park") }

func (i *inner) Publish(string, ...*message.Message) error { return i.note("Publish") }

func (i *inner) PublishTo([]string, []*message.Message) error { return i.note("PublishTo") }

func (i *inner) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	messages := make(chan *message.Message)
	close(messages)
	return messages, i.note("Subscribe")
}

func (i *inner) Close() error { return nil }
