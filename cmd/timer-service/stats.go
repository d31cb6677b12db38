package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type statsCmd struct {
	Tenant  timer.TenantID `arg:"" optional:"" help:"Count the timers of this tenant only."`
	Tenants bool           `help:"Count the timers of each tenant."`
	Limit   int            `default:"100" help:"How many tenants at most, up to 1000."`
	After   timer.TenantID `placeholder:"TENANT" help:"Only tenants after this one: the last of the page before."`
}

// Help is printed below the summary.
func (statsCmd) Help() string {
	return `Asks the service, or reads the database if none runs. The database keeps the counts,
so this is fast for any number of timers. Overdue timers are counted up to 10000.
Undelivered events wait for the broker, which refused parked ones. Destinations that
take none are named, with the reason. Messages that are
over a quota, or whose handling fails, wait in the inbox: a service that is asked counts
them. A service that is asked also says how many timers only a backup protects. The exit code
is 3 if the tenant has no timers.

Examples:

    timer-service stats
    timer-service stats acme
    timer-service stats --tenants -o json`
}

// Run prints the counts.
func (s *statsCmd) Run(ctx context.Context, e *env, r reader) error {
	switch {
	case s.Tenants, s.After != "":
		return s.each(ctx, e, r.Client)
	case s.Tenant != "":
		counted, err := ofTenant(ctx, r.Client, s.Tenant)
		switch {
		case err != nil:
			return err
		case counted.Counts == admin.Counts{} && counted.Pause == nil && counted.Waiting == nil:
			return &absentError{fmt.Sprintf("timers of tenant %s", s.Tenant), "stats --tenants"}
		}
		e.out.print(counted)
		return nil
	}
	t, err := apiclient.Get[admin.Stats](ctx, r.Client, apiclient.Path("stats"))
	if err == nil {
		e.out.print(&totals{t})
	}
	return err
}

func ofTenant(ctx context.Context, r *apiclient.Client, tenant timer.TenantID) (*tenantCounts, error) {
	s, err := apiclient.Get[admin.TenantStats](ctx, r, apiclient.Path("tenants", string(tenant)))
	return &tenantCounts{s}, err
}

// atLeast formats a count that stops at a limit.
func atLeast(n, limit int64) string {
	if n >= limit {
		return fmt.Sprintf("%d+", limit)
	}
	return strconv.FormatInt(n, 10)
}

// Validate refuses arguments that exclude each other.
func (s *statsCmd) Validate() error {
	if s.Tenant != "" && (s.Tenants || s.After != "") {
		return errors.New("a tenant and --tenants exclude each other; give one")
	}
	return nil
}

// each prints the counts of many tenants.
func (s *statsCmd) each(ctx context.Context, e *env, r *apiclient.Client) error {
	page, err := apiclient.Get[admin.Tenants](ctx, r, apiclient.Path("tenants")+apiclient.Query("after", string(s.After), "limit", strconv.Itoa(s.Limit)))
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "scheduled", "reached", "expired", "canceled", "overdue", "oldest due", "firing")
	for _, t := range page.Tenants {
		c, err := ofTenant(ctx, r, t.TenantID)
		if err != nil {
			return err
		}
		firing := "fires"
		if c.Pause != nil {
			firing = "paused"
		}
		rows.add(c, c.TenantID, c.Scheduled, c.Reached, c.Expired, c.Canceled, atLeast(c.Overdue, timer.MaxOverdue), fromNow(c.OldestOverdue), firing)
	}
	rows.end(e, "no timers", page.Next)
	return nil
}

// pairs formats numbers of timers by state, and of overdue timers, for people.
func pairs(c admin.Counts, next string, overdue int64, oldest string, paused, held int64) []any {
	return []any{
		"scheduled", c.Scheduled, "reached", c.Reached, "expired", c.Expired, "canceled", c.Canceled, "next due", when(next),
		"overdue", atLeast(overdue, timer.MaxOverdue), "since", when(oldest), "held by pause", some(paused), "held by rate", some(held),
	}
}

// waitingPairs formats how many messages wait in the inbox, for people.
func waitingPairs(w *admin.Waiting) []any {
	if w == nil {
		return nil
	}
	return []any{"over quota", some(w.OverQuota), "failing", some(w.Failed), "waiting since", when(w.Oldest)}
}

// some formats a number, or nothing if it is zero.
func some[T int64 | float64](n T) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// TenantCounts are the counts of one tenant.
type tenantCounts struct{ admin.TenantStats }

func (c *tenantCounts) text() string {
	all := append([]any{"tenant", c.TenantID}, pairs(c.Counts, "", c.Overdue, c.OldestOverdue, c.Paused, c.Held)...)
	all = append(all, waitingPairs(c.Waiting)...)
	if c.Pause != nil {
		all = append(all, "firing", "paused "+pauseText(*c.Pause))
	}
	return fields(all...)
}

// Totals are the counts over all tenants.
type totals struct{ admin.Stats }

func (t *totals) text() string {
	all := append(pairs(t.Counts, t.NextDue, t.Overdue, t.OldestOverdue, t.Paused, t.Held), "undelivered", t.Outbox, "due at", when(t.OldestDue), "parked", t.Parked)
	all = append(all, waitingPairs(t.Waiting)...)
	for _, f := range t.Failing {
		d := timer.FailingDestination{Destination: f.Destination, Events: f.Events, Reason: f.Reason}
		all = append(all, "undelivered to", fmt.Sprintf("%s: %s since %s: %s", d.Destination, d.Waiting(), when(f.Oldest), d.Reason))
	}
	if u := t.Unprotected; u != nil {
		all = append(all, "unprotected", timer.Unprotected{
			Timers: u.Timers, More: u.More, Oldest: parseTime(u.Oldest), Before: parseTime(u.Before), At: parseTime(u.CountedAt),
		})
	}
	text := fields(all...)
	if t.Firing != nil {
		text += "\n" + (&firing{*t.Firing}).text()
	}
	return text
}
