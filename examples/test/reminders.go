// Package reminders is business code that waits for hours: who has not paid an order
// after three of them gets a mail. Its test is what this example shows; README.md says
// more.
package reminders

import (
	"context"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

// After is how long an order may be unpaid before a reminder is sent.
const After = 3 * time.Hour

// Reminders sends reminders.
type Reminders struct {
	timers *client.Client
	mail   func(ctx context.Context, order string) error

	mu   sync.Mutex
	paid map[string]bool // in place of a table
}

// New returns Reminders that asks timers to be called, and mails.
func New(timers *client.Client, mail func(ctx context.Context, order string) error) *Reminders {
	return &Reminders{timers: timers, mail: mail, paid: make(map[string]bool)}
}

// Ordered asks for the reminder of an order.
func (r *Reminders) Ordered(ctx context.Context, order string) error {
	_, err := r.timers.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(order), After: After})
	return err
}

// Paid notes that an order is paid, and needs no reminder.
func (r *Reminders) Paid(ctx context.Context, order string) error {
	r.mu.Lock()
	r.paid[order] = true
	r.mu.Unlock()
	_, err := r.timers.Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(order)})
	return err
}

// OnDue sends the reminder of an order, unless it was paid while the event was on its
// way. After an error of the mail it is called again.
func (r *Reminders) OnDue(ctx context.Context, e timer.DueTimeReached) error {
	order := string(e.ServiceCallID)
	r.mu.Lock()
	paid := r.paid[order]
	r.mu.Unlock()
	if paid {
		return nil
	}
	return r.mail(ctx, order)
}
