package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type listCmd struct {
	Tenant      string    `arg:"" optional:"" help:"Owner of the timers."`
	State       string    `placeholder:"STATE" help:"Only those Scheduled, Reached or Canceled."`
	DueFrom     instant   `placeholder:"TIME" help:"Only those due then or later, as RFC 3339 with a zone."`
	DueBefore   instant   `placeholder:"TIME" help:"Only those due before then."`
	DueWithin   *duration `placeholder:"1h" help:"Only those Scheduled and due before the end of this duration, overdue ones too; without a tenant, those of all, soonest first."`
	Limit       int       `default:"100" help:"How many at most, up to 1000."`
	After       string    `placeholder:"CALL" help:"The page after this one: the last service call of the page before, or what that page says."`
	Correlation string    `placeholder:"ID" help:"Only timers with this correlation id; without a tenant, those of all tenants."`
}

// Help is printed below the summary.
func (listCmd) Help() string {
	return `Asks the service, or reads the database if none runs. Timers are ordered by
service call, those of --due-within without a tenant by due time. With -o json there
is one object a line, and no output if there is no timer.

Examples:

    timer-service list acme
    timer-service list acme --state Scheduled --limit 1000 -o json
    timer-service list acme --after order-99
    timer-service list --due-within 1h
    timer-service list acme --state Scheduled --due-before 2030-01-31T12:00:00Z
    timer-service list --correlation req-7`
}

// Run prints the timers.
func (l *listCmd) Run(ctx context.Context, e *env) error {
	filter, err := l.filter(e.now())
	if err != nil {
		return err
	}
	r, err := e.reader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	page, err := l.find(ctx, r, filter)
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "service call", "state", "due at", "fired late", "correlation", "due")
	for _, entry := range page.Entries {
		s := show(entry)
		rows.add(s, s.TenantID, s.ServiceCallID, s.State, s.DueAt, s.late(), orDash(s.CorrelationID), s.DueAt.fromNow())
	}
	switch empty := rows.end(); {
	case empty:
		fmt.Fprintln(e.stderr, "no timers")
	case e.out.json:
	case page.Next != "":
		fmt.Fprintf(e.stderr, "there may be more: --after %s\n", page.Next)
	case l.Tenant == "" && len(page.Entries) == l.Limit:
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", l.Limit)
	}
	return nil
}

// find reads pages, which may have few timers or none that match, until the limit
// is reached or there are no more.
func (l *listCmd) find(ctx context.Context, r *apiclient.Client, filter timer.Filter) (found timer.Page, err error) {
	if l.DueWithin != nil && l.Tenant == "" {
		page, err := r.Due(ctx, filter.DueBefore, l.After, l.Limit)
		if errors.Is(err, timer.ErrInvalid) {
			err = wrong("list", "--after: %s", detail(err))
		}
		return timer.Page{Entries: page.Entries, Next: timer.ServiceCallID(page.Next)}, err
	}
	if l.Tenant == "" {
		found.Entries, err = r.Correlated(ctx, l.Correlation, l.Limit)
		return found, err
	}
	for {
		page, err := r.List(ctx, timer.TenantID(l.Tenant), filter)
		if err != nil {
			return timer.Page{}, err
		}
		found.Entries, found.Next = append(found.Entries, page.Entries...), page.Next
		filter.After, filter.Limit = page.Next, l.Limit-len(found.Entries)
		if page.Next == "" || filter.Limit == 0 {
			return found, nil
		}
	}
}

// filter returns the filter of the flags, or what is wrong with them.
func (l *listCmd) filter(now time.Time) (timer.Filter, error) {
	filter := timer.Filter{
		DueFrom: time.Time(l.DueFrom), DueBefore: time.Time(l.DueBefore), CorrelationID: l.Correlation,
		After: timer.ServiceCallID(l.After), Limit: l.Limit,
	}
	if l.DueWithin != nil {
		if l.State != "" || !filter.DueFrom.IsZero() || !filter.DueBefore.IsZero() || l.Tenant == "" && l.Correlation != "" {
			return filter, wrong("list", "--due-within excludes --state, --due-from and --due-before, and --correlation without a tenant")
		}
		if *l.DueWithin < 0 {
			return filter, wrong("list", "--due-within must not be negative; 0 is what is overdue")
		}
		filter.State, filter.DueBefore = timer.Scheduled, now.Add(time.Duration(*l.DueWithin))
	}
	switch {
	case l.Limit < 1 || l.Limit > timer.MaxPage:
		return filter, wrong("list", "--limit must be from 1 to %d, not %d", timer.MaxPage, l.Limit)
	case l.DueWithin != nil && l.Tenant == "":
		return filter, nil
	case l.Tenant == "" && l.Correlation == "":
		return filter, wrong("list", "name a tenant, or --due-within 1h, or --correlation ID")
	case l.Tenant == "" && (l.State != "" || l.After != "" || !filter.DueFrom.IsZero() || !filter.DueBefore.IsZero()):
		return filter, wrong("list", "--state, --after, --due-from and --due-before go with a tenant")
	}
	if l.Correlation != "" {
		if err := timer.ValidateID("--correlation", l.Correlation); err != nil {
			return filter, refused("list", err)
		}
	}
	if l.Tenant != "" {
		if err := timer.TenantID(l.Tenant).Validate(); err != nil {
			return filter, refused("list", err)
		}
	}
	if l.After != "" {
		if err := filter.After.Validate(); err != nil {
			return filter, wrong("list", "--after: %s", detail(err))
		}
	}
	states := []timer.State{timer.Scheduled, timer.Reached, timer.Canceled}
	if n := slices.IndexFunc(states, func(s timer.State) bool { return strings.EqualFold(l.State, string(s)) }); n >= 0 {
		filter.State = states[n]
	} else if l.State != "" {
		return filter, wrong("list", "--state must be Scheduled, Reached or Canceled, not %s", timer.Quote(l.State))
	}
	return filter, nil
}
