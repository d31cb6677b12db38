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

// Get returns a timer, and where its event is; nil if it has not fired.
func (c *Client) Get(ctx context.Context, key timer.Key) (timer.Entry, *admin.Event, error) {
	var t admin.Timer
	err := c.get(ctx, timerPath(key), &t)
	if errors.Is(err, timer.ErrNotFound) {
		err = fmt.Errorf("%s: %w", key, timer.ErrNotFound)
	}
	return entry(t), t.Event, err
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

// List returns a page of timers of a tenant.
func (c *Client) List(ctx context.Context, tenant timer.TenantID, f timer.Filter) (timer.Page, error) {
	var page admin.Timers
	err := c.get(ctx, "/v1/tenants/"+url.PathEscape(string(tenant))+"/timers"+query(
		"state", string(f.State), "dueFrom", stamp(f.DueFrom), "dueBefore", stamp(f.DueBefore), "correlationId", f.CorrelationID,
		"after", string(f.After), "limit", strconv.Itoa(timer.PageSize(f.Limit))), &page)
	return timer.Page{Entries: entries(page.Timers), Next: timer.ServiceCallID(page.Next)}, err
}

// Correlated returns timers of all tenants with a correlation id.
func (c *Client) Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error) {
	var page admin.Timers
	err := c.get(ctx, "/v1/timers"+query("correlationId", correlationID, "limit", strconv.Itoa(limit)), &page)
	return entries(page.Timers), err
}

// Due returns a page of timers that are due before a time, soonest first.
func (c *Client) Due(ctx context.Context, before time.Time, after string, limit int) (timer.DuePage, error) {
	var page admin.Timers
	within := max(0, time.Until(before).Milliseconds()) //nolint:forbidigo // the API takes how far ahead it is
	err := c.get(ctx, "/v1/timers"+query("dueWithin", strconv.FormatInt(within, 10)+"ms", "after", after, "limit", strconv.Itoa(limit)), &page)
	return timer.DuePage{Entries: entries(page.Timers), Next: page.Next}, err
}

// Stats returns counts of all tenants.
func (c *Client) Stats(ctx context.Context) (s admin.Stats, err error) {
	err = c.get(ctx, "/v1/stats", &s)
	return s, err
}

// Tenant returns counts of one tenant.
func (c *Client) Tenant(ctx context.Context, tenant timer.TenantID) (s admin.TenantStats, err error) {
	err = c.get(ctx, "/v1/tenants/"+url.PathEscape(string(tenant)), &s)
	return s, err
}

// Tenants returns a page of tenants with their counts.
func (c *Client) Tenants(ctx context.Context, after timer.TenantID, limit int) (all []timer.TenantCounts, err error) {
	var page admin.Tenants
	err = c.get(ctx, "/v1/tenants"+query("after", string(after), "limit", strconv.Itoa(limit)), &page)
	for _, t := range page.Tenants {
		all = append(all, timer.TenantCounts{TenantID: t.TenantID, Counts: timer.Counts(t.Counts)})
	}
	return all, err
}

// Firing returns the pause of firing, if there is one.
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
