package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/timer"
)

type listCmd struct {
	Tenant      string  `arg:"" optional:"" help:"Owner of the timers."`
	State       string  `placeholder:"STATE" help:"Only those Scheduled, Reached or Canceled."`
	DueFrom     instant `placeholder:"TIME" help:"Only those due then or later, as RFC 3339 with a zone."`
	DueBefore   instant `placeholder:"TIME" help:"Only those due before then."`
	Limit       int     `default:"100" help:"How many at most, up to 1000."`
	After       string  `placeholder:"CALL" help:"Only service calls after this one: the last of the page before."`
	Correlation string  `placeholder:"ID" help:"Only timers with this correlation id; without a tenant, those of all tenants."`
}

// Help is printed below the summary.
func (listCmd) Help() string {
	return `Reads the database, whether the service runs or not. Timers are ordered by
service call. With -o json there is one object a line, and no output if there is
no timer.

Examples:

    timer-service list acme
    timer-service list acme --state Scheduled --limit 1000 -o json
    timer-service list acme --after order-99
    timer-service list acme --state Scheduled --due-before 2030-01-31T12:00:00Z
    timer-service list --correlation req-7`
}

// Run prints the timers.
func (l *listCmd) Run(ctx context.Context, e *env) error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	page, err := l.find(ctx, r, filter)
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "service call", "state", "due at", "fired late", "correlation")
	for _, entry := range page.Entries {
		s := show(entry)
		rows.add(s, s.TenantID, s.ServiceCallID, s.State, s.DueAt, s.late(), orDash(s.CorrelationID))
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
func (l *listCmd) find(ctx context.Context, r timer.Reader, filter timer.Filter) (found timer.Page, err error) {
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
func (l *listCmd) filter() (timer.Filter, error) {
	filter := timer.Filter{
		DueFrom: time.Time(l.DueFrom), DueBefore: time.Time(l.DueBefore), CorrelationID: l.Correlation,
		After: timer.ServiceCallID(l.After), Limit: l.Limit,
	}
	switch {
	case l.Tenant == "" && l.Correlation == "":
		return filter, wrong("list", "name a tenant, or --correlation ID")
	case l.Tenant == "" && (l.State != "" || l.After != "" || !filter.DueFrom.IsZero() || !filter.DueBefore.IsZero()):
		return filter, wrong("list", "--state, --after, --due-from and --due-before go with a tenant")
	case l.Limit < 1 || l.Limit > timer.MaxPage:
		return filter, wrong("list", "--limit must be from 1 to %d, not %d", timer.MaxPage, l.Limit)
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
