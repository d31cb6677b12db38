package fault

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An inbox is a [timer.Inbox] whose calls fail.
type inbox struct {
	timer.Inbox
	decide Decide
}

// PutInbox fails as "put_inbox".
func (i *inbox) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return i.decide.call("put_inbox", func() error { return i.Inbox.PutInbox(ctx, messages...) })
}

// TakeInbox fails as "take_inbox".
func (i *inbox) TakeInbox(ctx context.Context, now, until time.Time, limit, each int, without []timer.TenantID) ([]timer.InboxMessage, error) {
	return get(i.decide, "take_inbox", func() ([]timer.InboxMessage, error) {
		return i.Inbox.TakeInbox(ctx, now, until, limit, each, without)
	})
}

// HastenInbox fails as "hasten_inbox".
func (i *inbox) HastenInbox(ctx context.Context, due, later time.Time) error {
	return i.decide.call("hasten_inbox", func() error { return i.Inbox.HastenInbox(ctx, due, later) })
}

// DeferInbox fails as "defer_inbox".
func (i *inbox) DeferInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return i.decide.call("defer_inbox", func() error { return i.Inbox.DeferInbox(ctx, messages...) })
}

// DeleteInbox fails as "delete_inbox".
func (i *inbox) DeleteInbox(ctx context.Context, seqs ...int64) error {
	return i.decide.call("delete_inbox", func() error { return i.Inbox.DeleteInbox(ctx, seqs...) })
}

// NextInbox fails as "next_inbox".
func (i *inbox) NextInbox(ctx context.Context) (time.Time, error) {
	return get(i.decide, "next_inbox", func() (time.Time, error) { return i.Inbox.NextInbox(ctx) })
}

// InboxCounts fails as "inbox_counts".
func (i *inbox) InboxCounts(ctx context.Context, tenant timer.TenantID) ([]timer.InboxCount, error) {
	return get(i.decide, "inbox_counts", func() ([]timer.InboxCount, error) { return i.Inbox.InboxCounts(ctx, tenant) })
}

// AppliedSelections fails as "applied_selections".
func (i *inbox) AppliedSelections(ctx context.Context, tenant timer.TenantID, after int64) ([]timer.InboxMessage, error) {
	return get(i.decide, "applied_selections", func() ([]timer.InboxMessage, error) { return i.Inbox.AppliedSelections(ctx, tenant, after) })
}

// InInbox fails as "in_inbox".
func (i *inbox) InInbox(ctx context.Context, log string, numbers ...int64) (map[int64]int64, error) {
	return get(i.decide, "in_inbox", func() (map[int64]int64, error) { return i.Inbox.InInbox(ctx, log, numbers...) })
}

// PurgeApplied fails as "purge_applied".
func (i *inbox) PurgeApplied(ctx context.Context, before time.Time, limit int) (int, error) {
	return get(i.decide, "purge_applied", func() (int, error) { return i.Inbox.PurgeApplied(ctx, before, limit) })
}
