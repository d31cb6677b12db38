package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A commands applies [timer.Commands] in steps, each in a transaction or a savepoint.
type commands struct {
	// within runs fn in a step: in a transaction, or in a savepoint of a host's transaction.
	within func(ctx context.Context, doing string, fn func(context.Context, *transaction) error) error
	// together calls steps, which takes several. In a host's transaction a savepoint encloses
	// them, so that all or none take effect.
	together func(ctx context.Context, doing string, steps func() error) error
}

// Schedule applies commands, those of one key in the order given. They share a transaction
// unless the database refuses one of them.
func (c commands) Schedule(ctx context.Context, now time.Time, all ...timer.ScheduleTimer) ([]timer.Result, error) {
	return c.apply(ctx, store.Schedule(now, all))
}

// Cancel applies commands as Schedule does. Where a foreign key asks for a service call that
// does not exist, there is nothing to cancel.
func (c commands) Cancel(ctx context.Context, now time.Time, all ...timer.CancelTimer) ([]timer.Result, error) {
	return c.apply(ctx, store.Cancel(now, all))
}

func (c commands) apply(ctx context.Context, a *store.Application) ([]timer.Result, error) {
	return a.Apply(
		func(first, end int) error { return c.step(ctx, a, first, end, nothingMore) },
		func(steps func() error) error { return c.together(ctx, a.Doing, steps) })
}

// nothingMore is for a step that applies commands and does nothing more.
func nothingMore(context.Context, *transaction) error { return nil }

// step applies commands, and calls more in the same step. When the foreign key to
// service_calls refuses a row for the first time, step runs once more: from then on apply
// looks service calls up before it writes.
func (c commands) step(ctx context.Context, a *store.Application, first, end int, more func(context.Context, *transaction) error) (err error) {
	for range 2 {
		err = c.within(ctx, a.Doing, func(ctx context.Context, t *transaction) error {
			if err := t.apply(ctx, a, first, end); err != nil {
				return err
			}
			return more(ctx, t)
		})
		if !isMissing(err) {
			break
		}
	}
	return err
}

// apply applies commands, and appends the receipts that they want.
func (t *transaction) apply(ctx context.Context, a *store.Application, first, end int) error {
	groups := a.Groups(first, end)
	if t.store.referenced.Load() {
		var existing []int64
		if err := each(ctx, t, store.Collect(&existing, store.ReadNumber), sqlParents, store.Keys(groups)); err != nil {
			return err
		}
		groups = a.RefuseAbsent(groups, existing)
	}
	for some := range slices.Chunk(groups, rowsAtOnce[0]) {
		err := t.write(ctx, a, some)
		failpoint.Here("applied")
		if err != nil {
			return t.refused(ctx, err, some)
		}
	}
	return t.EmitReceipts(ctx, a.Receipts(first, end)...)
}

// refused returns an error that says why the database refuses a row for good, or err itself if
// it does not, or if apply looks service calls up from now on.
func (t *transaction) refused(ctx context.Context, err error, groups []*store.Group) error {
	if isMissing(err) && !t.store.referenced.Load() {
		var referenced bool // false: it is another foreign key, of the host program
		if failed := each(ctx, t, store.Scan(&referenced), sqlReferenced); failed != nil || referenced {
			t.store.referenced.Store(referenced)
			return cmp.Or(failed, err)
		}
	}
	switch {
	case !isConstraint(err):
		return err
	case len(groups) == 1:
		return timer.Invalid(timer.ReasonRefused, "%s: %v", groups[0].Key, err)
	}
	return timer.Invalid(timer.ReasonRefused, "a command: %v", err)
}

// write writes the timers that change. No other transaction can change them between the
// two statements, since this one holds the write lock.
func (t *transaction) write(ctx context.Context, a *store.Application, groups []*store.Group) error {
	err := each(ctx, t, func(found store.Scanner) error {
		var n int
		var before timer.Status
		err := found.Scan(&n, (*string)(&before.State), &before.Version.TimestampMS, &before.Version.CommandID)
		if err != nil {
			return fmt.Errorf("read where a timer stands: %w", err)
		}
		groups[n].Before = before
		return nil
	}, sqlStatus, store.Keys(groups))
	if err != nil {
		return err
	}
	changed := a.Decide(groups)
	if len(changed) == 0 {
		return nil
	}
	var args []any
	for _, r := range a.Rows(changed) {
		args = append(args, values(&r)...)
	}
	n, err := t.insert(ctx, puts[a.Kind], args)
	if err != nil {
		return err
	}
	if n != int64(len(changed)) {
		return store.ErrDropped
	}
	for _, g := range changed {
		c := t.count(g.Key.TenantID)
		c.Count(g.Before.State, -1)
		c.Count(g.After.State, 1)
	}
	return nil
}

// orNull returns a value as an argument, and null for the zero value.
func orNull[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

// outboxCount stands for the tenant in the row that counts the outbox.
const outboxCount timer.TenantID = ""

// A count is the difference that a transaction makes to the counts of a tenant.
type count struct {
	timer.Counts
	outbox int64
}

// count returns the changes of a tenant, to be added to.
func (t *transaction) count(tenant timer.TenantID) *count {
	c := t.counts[tenant]
	if c == nil {
		c = new(count)
		t.counts[tenant] = c
	}
	return c
}

// writeCounts adds the differences to the counts, with one statement for each tenant however
// many of its timers changed. The statement finds the tenant's next due time again. A trigger
// counts deletes.
func (t *transaction) writeCounts(ctx context.Context) error {
	for tenant, c := range t.counts {
		if *c == (count{}) {
			continue
		}
		if _, err := t.ExecContext(ctx, sqlCount, string(tenant), c.Scheduled, c.Reached, c.Expired, c.Canceled, c.outbox); err != nil {
			return err
		}
	}
	return nil
}
