package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// parseTime returns a time of an answer, zero if it is empty.
func parseTime(text string) time.Time {
	t, _ := envelope.ParseTime(text) // the service has written it
	return t
}

func entry(t admin.Timer) timer.Entry {
	return timer.Entry{
		Key:   timer.Key{TenantID: t.TenantID, ServiceCallID: t.ServiceCallID},
		State: t.State, DueAt: parseTime(t.DueAt), RegisteredAt: parseTime(t.RegisteredAt), ReachedAt: parseTime(t.ReachedAt), CanceledAt: parseTime(t.CanceledAt),
		CorrelationID: t.CorrelationID, Version: timer.Version{TimestampMS: t.TimestampMS, CommandID: t.CommandID}, Data: cmp.Or(t.DataText, string(t.Data)),
	}
}

func entries(timers []admin.Timer) []timer.Entry {
	var all []timer.Entry
	for _, t := range timers {
		all = append(all, entry(t))
	}
	return all
}

// Get is that of [timer.Reader].
func (c *Client) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	var t admin.Timer
	err := c.get(ctx, timerPath(key), &t)
	if errors.Is(err, timer.ErrNotFound) {
		return timer.Entry{}, fmt.Errorf("%s: %w", key, timer.ErrNotFound)
	}
	if e := t.Event; e != nil {
		c.delivery[e.ID] = timer.Delivery{
			State: e.State, Since: parseTime(e.Since), Attempts: e.Attempts, Reason: e.Reason, Destination: e.Destination, RetryAt: parseTime(e.RetryAt),
		}
	}
	return entry(t), err
}

// Delivery is that of [timer.Reader], of an event of a timer that Get has returned.
func (c *Client) Delivery(_ context.Context, eventID string) (timer.Delivery, error) {
	d, known := c.delivery[eventID]
	if !known {
		d.State = timer.DeliveryUnknown
	}
	return d, nil
}

// query encodes pairs of a name and a value, without those that are empty.
func query(pairs ...string) string {
	v := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + v.Encode()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return envelope.FormatTime(t)
}

// List is that of [timer.Reader].
func (c *Client) List(ctx context.Context, tenant timer.TenantID, f timer.Filter) (timer.Page, error) {
	var page admin.Timers
	err := c.get(ctx, "/v1/tenants/"+url.PathEscape(string(tenant))+"/timers"+query(
		"state", string(f.State), "dueFrom", stamp(f.DueFrom), "dueBefore", stamp(f.DueBefore), "correlationId", f.CorrelationID,
		"after", string(f.After), "limit", strconv.Itoa(timer.PageSize(f.Limit))), &page)
	return timer.Page{Entries: entries(page.Timers), Next: timer.ServiceCallID(page.Next)}, err
}

// Correlated is that of [timer.Reader].
func (c *Client) Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error) {
	var page admin.Timers
	err := c.get(ctx, "/v1/timers"+query("correlationId", correlationID, "limit", strconv.Itoa(limit)), &page)
	return entries(page.Timers), err
}

// Due is that of [timer.Reader].
func (c *Client) Due(ctx context.Context, before time.Time, after string, limit int) (timer.DuePage, error) {
	var page admin.Timers
	within := max(0, time.Until(before).Milliseconds()) //nolint:forbidigo // the API takes how far ahead it is
	err := c.get(ctx, "/v1/timers"+query("dueWithin", strconv.FormatInt(within, 10)+"ms", "after", after, "limit", strconv.Itoa(limit)), &page)
	return timer.DuePage{Entries: entries(page.Timers), Next: page.Next}, err
}

// Stats is that of [timer.Reader].
func (c *Client) Stats(ctx context.Context) (timer.Stats, error) {
	var s admin.Stats
	err := c.get(ctx, "/v1/stats", &s)
	return timer.Stats{
		Counts: timer.Counts(s.Counts), NextDue: parseTime(s.NextDue), Outbox: s.Outbox, Oldest: parseTime(s.Oldest), DueAt: parseTime(s.OldestDue), Parked: s.Parked, Damaged: s.Damaged,
	}, err
}

// Unprotected returns which timers only a backup protects; without a time if the service
// does not say that.
func (c *Client) Unprotected(ctx context.Context) (timer.Unprotected, error) {
	var s admin.Stats
	err := c.get(ctx, "/v1/stats", &s)
	if s.Unprotected == nil {
		return timer.Unprotected{}, err
	}
	u := *s.Unprotected
	return timer.Unprotected{Timers: u.Timers, More: u.More, Oldest: parseTime(u.Oldest), Before: parseTime(u.Before), At: parseTime(u.CountedAt)}, err
}

// Overdue is that of [timer.Reader], by the clock of the service.
func (c *Client) Overdue(ctx context.Context, tenant timer.TenantID, _ time.Time) (timer.Overdue, error) {
	if tenant == "" {
		var s admin.Stats
		err := c.get(ctx, "/v1/stats", &s)
		return timer.Overdue{Timers: s.Overdue, Oldest: parseTime(s.OldestOverdue)}, err
	}
	var s admin.TenantStats
	err := c.get(ctx, "/v1/tenants/"+url.PathEscape(string(tenant)), &s)
	return timer.Overdue{Timers: s.Overdue, Oldest: parseTime(s.OldestOverdue)}, err
}

// Counts is that of [timer.Reader].
func (c *Client) Counts(ctx context.Context, tenant timer.TenantID) (timer.Counts, error) {
	var s admin.TenantStats
	err := c.get(ctx, "/v1/tenants/"+url.PathEscape(string(tenant)), &s)
	return timer.Counts(s.Counts), err
}

// Tenants is that of [timer.Reader].
func (c *Client) Tenants(ctx context.Context, after timer.TenantID, limit int) (all []timer.TenantCounts, err error) {
	var page admin.Tenants
	err = c.get(ctx, "/v1/tenants"+query("after", string(after), "limit", strconv.Itoa(limit)), &page)
	for _, t := range page.Tenants {
		all = append(all, timer.TenantCounts{TenantID: t.TenantID, Counts: timer.Counts(t.Counts)})
	}
	return all, err
}

// Firing is that of [timer.Reader].
func (c *Client) Firing(ctx context.Context) (timer.Pause, error) {
	var f admin.Firing
	err := c.get(ctx, "/v1/firing", &f)
	return timer.Pause{Since: parseTime(f.Since), By: f.By}, err
}

// Quotas returns a page of what tenants may have and use, of one tenant if it is named.
func (c *Client) Quotas(ctx context.Context, tenant, after timer.TenantID, limit int) (q admin.Quotas, err error) {
	err = c.get(ctx, "/v1/quotas"+query("tenant", string(tenant), "after", string(after), "limit", strconv.Itoa(limit)), &q)
	return q, err
}
