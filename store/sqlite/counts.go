package sqlite

import (
	"context"

	"github.com/event-service-agent/timer-service/timer"
)

// outboxCount stands for the tenant in the row that counts the outbox.
const outboxCount timer.TenantID = ""

// A count is what a transaction changed for a tenant.
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

// writeCounts writes what has changed, one row for each tenant however many of its timers
// changed, and finds the tenant's next due time again. Deletes are counted by a trigger.
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
