package main

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/timer"
)

type statsCmd struct {
	Tenant  string `arg:"" optional:"" help:"Count the timers of this tenant only."`
	Tenants bool   `help:"Count the timers of each tenant."`
	Limit   int    `default:"100" help:"How many tenants at most, up to 1000."`
	After   string `placeholder:"TENANT" help:"Only tenants after this one: the last of the page before."`
}

// Help is printed below the summary.
func (statsCmd) Help() string {
	return `Reads the database, whether the service runs or not. The database keeps the counts,
so this is fast for any number of timers.

Examples:

    timer-service stats
    timer-service stats acme
    timer-service stats --tenants -o json`
}

// Run prints the counts.
func (s *statsCmd) Run(ctx context.Context, e *env) error {
	if err := s.check(); err != nil {
		return err
	}
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	switch {
	case s.Tenants:
		return s.each(ctx, e, r)
	case s.Tenant != "":
		c, err := r.Counts(ctx, timer.TenantID(s.Tenant))
		if err != nil {
			return err
		}
		e.out.print(&tenantCounts{TenantID: timer.TenantID(s.Tenant), counts: counts(c)})
		return nil
	}
	st, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	e.out.print(&totals{
		counts:  counts(st.Counts),
		NextDue: stamp(st.NextDue), Outbox: st.Outbox, Oldest: stamp(st.Oldest), Parked: st.Parked,
	})
	return nil
}

// check returns what is wrong with the flags.
func (s *statsCmd) check() error {
	switch {
	case s.Tenant != "" && s.Tenants:
		return wrong("stats", "a tenant and --tenants exclude each other; give one")
	case s.After != "" && !s.Tenants:
		return wrong("stats", "--after goes with --tenants")
	case s.Limit < 1 || s.Limit > timer.MaxPage:
		return wrong("stats", "--limit must be from 1 to %d, not %d", timer.MaxPage, s.Limit)
	}
	for _, tenant := range []string{s.Tenant, s.After} {
		if tenant == "" {
			continue
		}
		if err := timer.TenantID(tenant).Validate(); err != nil {
			return refused("stats", err)
		}
	}
	return nil
}

// each prints the counts of many tenants.
func (s *statsCmd) each(ctx context.Context, e *env, r timer.Reader) error {
	page, err := r.Tenants(ctx, timer.TenantID(s.After), s.Limit)
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "scheduled", "reached", "canceled")
	for _, c := range page {
		rows.add(&tenantCounts{TenantID: c.TenantID, counts: counts(c.Counts)}, c.TenantID, c.Scheduled, c.Reached, c.Canceled)
	}
	switch empty := rows.end(); {
	case empty:
		fmt.Fprintln(e.stderr, "no timers")
	case !e.out.json && len(page) == s.Limit:
		fmt.Fprintf(e.stderr, "there may be more: --after %s\n", page[len(page)-1].TenantID)
	}
	return nil
}

// Counts are numbers of timers by state.
type counts struct {
	Scheduled int64 `json:"scheduled"`
	Reached   int64 `json:"reached"`
	Canceled  int64 `json:"canceled"`
}

func (c counts) pairs() []any {
	return []any{"scheduled", c.Scheduled, "reached", c.Reached, "canceled", c.Canceled}
}

// TenantCounts are those of one tenant.
type tenantCounts struct {
	TenantID timer.TenantID `json:"tenantId"`
	counts
}

func (c *tenantCounts) text() string {
	return fields(append([]any{"tenant", c.TenantID}, c.pairs()...)...)
}

// Totals are over all tenants.
type totals struct {
	counts
	NextDue stamp `json:"nextDue,omitzero"` // none if no timer is Scheduled
	Outbox  int64 `json:"outbox"`           // events that are not published yet
	Oldest  stamp `json:"oldest,omitzero"`  // when the oldest of them was appended; none if there is none
	Parked  int64 `json:"parked"`           // events that the broker refused for good
}

func (t *totals) text() string {
	pairs := append(t.pairs(), "next due", t.NextDue, "outbox", t.Outbox)
	if !t.Oldest.IsZero() {
		pairs = append(pairs, "oldest event", t.Oldest)
	}
	return fields(append(pairs, "parked", t.Parked)...)
}
