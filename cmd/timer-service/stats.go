package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type statsCmd struct {
	Tenant  string `arg:"" optional:"" help:"Count the timers of this tenant only."`
	Tenants bool   `help:"Count the timers of each tenant."`
	Limit   int    `default:"100" help:"How many tenants at most, up to 1000."`
	After   string `placeholder:"TENANT" help:"Only tenants after this one: the last of the page before."`

	DeadLetters bool `help:"Count the dead letters at the broker, too, up to 10000. It reads them all."`
}

// Help is printed below the summary.
func (statsCmd) Help() string {
	return `Asks the service, or reads the database if none runs. The database keeps the counts,
so this is fast for any number of timers. Overdue timers are counted up to 10000.
Undelivered are events that wait for the broker, parked are those that it refused. A
service that is asked also says how many timers only a backup protects.

Examples:

    timer-service stats
    timer-service stats acme
    timer-service stats --tenants -o json
    timer-service stats --dead-letters`
}

// Run prints the counts.
func (s *statsCmd) Run(ctx context.Context, e *env) error {
	if err := s.check(); err != nil {
		return err
	}
	r, err := e.reader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	var dead deadLetters
	if s.DeadLetters {
		if dead, err = countDeadLetters(ctx, e, timer.TenantID(s.Tenant)); err != nil {
			return err
		}
	}
	switch {
	case s.Tenants:
		return s.each(ctx, e, r, dead)
	case s.Tenant != "":
		counted, err := ofTenant(ctx, r, timer.TenantID(s.Tenant), dead)
		if err != nil {
			return err
		}
		e.out.print(counted)
		return nil
	}
	st, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	t := newTotals(st)
	t.DeadLetters = dead.all()
	e.out.print(&t)
	return nil
}

// newTotals returns what a service says of all tenants.
func newTotals(s admin.Stats) totals {
	t := totals{
		counts: counts{s.Scheduled, s.Reached, s.Canceled}, overdue: overdue{s.Overdue, parseStamp(s.OldestOverdue)},
		NextDue: parseStamp(s.NextDue), Outbox: s.Outbox, Oldest: parseStamp(s.Oldest), OldestDue: parseStamp(s.OldestDue), Parked: s.Parked,
	}
	if u := s.Unprotected; u != nil {
		t.Unprotected = &unprotected{Timers: u.Timers, More: u.More, Oldest: parseStamp(u.Oldest), Before: parseStamp(u.Before), CountedAt: parseStamp(u.CountedAt)}
	}
	return t
}

// maxDeadLetters is how many dead letters are counted.
const maxDeadLetters = 10_000

// DeadLetters are how many dead letters each tenant has; nil if they were not
// counted.
type deadLetters map[timer.TenantID]int64

func countDeadLetters(ctx context.Context, e *env, tenant timer.TenantID) (deadLetters, error) {
	dead := make(deadLetters)
	err := withDeadLetters(ctx, e, "stats", maxDeadLetters, false, func(o deadLetterService) (deadletter.Summary, error) {
		sum, err := o.List(ctx, deadletter.Filter{Tenant: tenant, Limit: maxDeadLetters}, func(m deadletter.Message) error {
			dead[m.Tenant]++
			return nil
		})
		sum.More = false // the number says so
		return sum, err
	})
	return dead, err
}

// of returns how many a tenant has, nil if they were not counted.
func (d deadLetters) of(tenant timer.TenantID) *int64 {
	if d == nil {
		return nil
	}
	return new(d[tenant])
}

func (d deadLetters) all() *int64 {
	if d == nil {
		return nil
	}
	var all int64
	for _, n := range d {
		all += n
	}
	return &all
}

// atLeast returns a count for people that ends at a limit.
func atLeast(n, limit int64) string {
	if n >= limit {
		return fmt.Sprintf("%d+", limit)
	}
	return strconv.FormatInt(n, 10)
}

// ofTenant returns the counts of a tenant, with its dead letters.
func ofTenant(ctx context.Context, r *apiclient.Client, tenant timer.TenantID, dead deadLetters) (*tenantCounts, error) {
	s, err := r.Tenant(ctx, tenant)
	return &tenantCounts{
		TenantID: tenant, counts: counts{s.Scheduled, s.Reached, s.Canceled}, overdue: overdue{s.Overdue, parseStamp(s.OldestOverdue)}, DeadLetters: dead.of(tenant),
	}, err
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
func (s *statsCmd) each(ctx context.Context, e *env, r *apiclient.Client, dead deadLetters) error {
	page, err := r.Tenants(ctx, timer.TenantID(s.After), s.Limit)
	if err != nil {
		return err
	}
	headers := []any{"tenant", "scheduled", "reached", "canceled", "overdue"}
	if dead != nil {
		headers = append(headers, "dead letters")
	}
	rows := e.out.rows(append(headers, "oldest due")...)
	for _, c := range page {
		counted, err := ofTenant(ctx, r, c.TenantID, dead)
		if err != nil {
			return err
		}
		cells := []any{c.TenantID, c.Scheduled, c.Reached, c.Canceled, atLeast(counted.Overdue, timer.MaxOverdue)}
		if dead != nil {
			cells = append(cells, *counted.DeadLetters)
		}
		rows.add(counted, append(cells, counted.OldestOverdue.fromNow())...)
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

// Overdue timers were due before now.
type overdue struct {
	Overdue       int64 `json:"overdue"` // 10000 may stand for more
	OldestOverdue stamp `json:"oldestOverdue,omitzero"`
}

func (o overdue) pairs() []any {
	text := atLeast(o.Overdue, timer.MaxOverdue)
	if o.Overdue > 0 {
		text += ", the oldest was due at " + when(o.OldestOverdue)
	}
	return []any{"overdue", text}
}

// TenantCounts are those of one tenant.
type tenantCounts struct {
	TenantID timer.TenantID `json:"tenantId"`
	counts
	overdue
	DeadLetters *int64 `json:"deadLetters,omitempty"` // 10000 may stand for more
}

func (c *tenantCounts) text() string {
	pairs := slices.Concat([]any{"tenant", c.TenantID}, c.counts.pairs(), c.overdue.pairs())
	if c.DeadLetters != nil {
		pairs = append(pairs, "dead letters", atLeast(*c.DeadLetters, maxDeadLetters))
	}
	return fields(pairs...)
}

// Totals are over all tenants.
type totals struct {
	counts
	NextDue stamp `json:"nextDue,omitzero"` // none if no timer is Scheduled
	overdue
	Outbox      int64        `json:"outbox"`                // events that are not published yet
	Oldest      stamp        `json:"oldest,omitzero"`       // when the oldest of them was appended; none if there is none
	OldestDue   stamp        `json:"oldestDue,omitzero"`    // when its timer was due
	Parked      int64        `json:"parked"`                // events that the broker refused for good
	Unprotected *unprotected `json:"unprotected,omitempty"` // none if that is not known
	DeadLetters *int64       `json:"deadLetters,omitempty"` // 10000 may stand for more; none if they were not counted
}

// Unprotected are timers that only a backup protects.
type unprotected struct {
	Timers    int64 `json:"timers"`
	More      bool  `json:"more,omitempty"` // there may be more
	Oldest    stamp `json:"oldest,omitzero"`
	Before    stamp `json:"before,omitzero"` // since when the broker has all commands; none if it keeps nothing
	CountedAt stamp `json:"countedAt"`
}

func (u *unprotected) words() string {
	return timer.Unprotected{Timers: u.Timers, More: u.More, Oldest: time.Time(u.Oldest), Before: time.Time(u.Before), At: time.Time(u.CountedAt)}.String()
}

func (t *totals) text() string {
	undelivered := strconv.FormatInt(t.Outbox, 10)
	if !t.OldestDue.IsZero() {
		undelivered += ", the oldest was due at " + when(t.OldestDue)
	}
	pairs := slices.Concat(t.counts.pairs(), []any{"next due", when(t.NextDue)}, t.overdue.pairs(),
		[]any{"undelivered", undelivered, "parked", t.Parked})
	if t.DeadLetters != nil {
		pairs = append(pairs, "dead letters", atLeast(*t.DeadLetters, maxDeadLetters))
	}
	if t.Unprotected != nil {
		pairs = append(pairs, "unprotected", t.Unprotected.words())
	}
	return fields(pairs...)
}
