package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type listCmd struct {
	Tenant      timer.TenantID `arg:"" optional:"" help:"Owner of the timers."`
	Prefix      string         `placeholder:"CALL" help:"Only those whose service call begins so; needs a tenant."`
	State       string         `placeholder:"STATE" values:"Scheduled,Reached,Expired,Canceled" help:"Only those Scheduled, Reached, Expired or Canceled."`
	DueFrom     instant        `placeholder:"TIME" help:"Only those due then or later, as RFC 3339 with a zone."`
	DueBefore   instant        `placeholder:"TIME" help:"Only those due before then."`
	DueWithin   *duration      `placeholder:"1h" help:"Only those Scheduled and due before the end of this duration, overdue ones too; without a tenant, those of all, soonest first."`
	Limit       pageSize       `default:"100" help:"How many at most, up to 1000."`
	After       string         `placeholder:"CALL" help:"The page after this one: the last service call of the page before, or what that page says."`
	Correlation correlation    `placeholder:"ID" help:"Only timers with this correlation id; without a tenant, those of all tenants."`
}

// Help is printed below the summary.
func (listCmd) Help() string {
	return `Asks the service, or reads the database if none runs. Timers are ordered by
service call, those of --due-within without a tenant by due time. With -o json there
is one object a line, and no output if there is no timer.

Examples:

    timer-service list acme
    timer-service list acme --state Scheduled --limit 1000 -o json
    timer-service list acme --prefix order-17.
    timer-service list --due-within 1h
    timer-service list acme --state Scheduled --due-before 2030-01-31T12:00:00Z
    timer-service list --correlation req-7`
}

// Run prints the timers.
func (l *listCmd) Run(ctx context.Context, e *env, r reader) error {
	page, err := l.find(ctx, r.Client, e.now())
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "service call", "state", "due at", "fired late", "correlation", "due")
	for _, t := range page.Timers {
		s := show(t)
		rows.add(s, s.TenantID, s.ServiceCallID, s.State, orDash(s.DueAt), s.late(), orDash(s.CorrelationID), fromNow(s.DueAt))
	}
	rows.end(e, "no timers", page.Next)
	if !e.out.json && l.Tenant == "" && page.Next == "" && len(page.Timers) == int(l.Limit) {
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", l.Limit)
	}
	return nil
}

// find reads pages until the limit is reached or there are no more. A page may have few
// matching timers, or none.
func (l *listCmd) find(ctx context.Context, r *apiclient.Client, now time.Time) (found admin.Timers, err error) {
	path, within, before := apiclient.Path("timers"), "", l.DueBefore
	switch {
	case l.Tenant != "":
		path = apiclient.Path("tenants", string(l.Tenant), "timers")
		if l.DueWithin != nil {
			before = instant(now.Add(time.Duration(*l.DueWithin)))
		}
	case l.DueWithin != nil:
		within = fmt.Sprintf("%dms", time.Duration(*l.DueWithin).Milliseconds())
	}
	for found.Next = l.After; ; {
		page, err := apiclient.Get[admin.Timers](ctx, r, path+apiclient.Query(
			"prefix", l.Prefix, "state", l.State, "dueFrom", l.DueFrom.text(), "dueBefore", before.text(), "dueWithin", within, "correlationId", string(l.Correlation),
			"after", found.Next, "limit", strconv.Itoa(int(l.Limit)-len(found.Timers))))
		if errors.Is(err, timer.ErrInvalid) { // the other arguments were checked before
			err = wrong("list", "--after: %s", detail(err))
		}
		if err != nil {
			return found, err
		}
		found.Timers, found.Next = append(found.Timers, page.Timers...), page.Next
		if page.Next == "" || len(found.Timers) == int(l.Limit) || l.Tenant == "" {
			return found, nil
		}
	}
}

// Validate refuses flags that exclude each other, and unknown states.
func (l *listCmd) Validate() error {
	if l.DueWithin != nil {
		if l.State != "" || l.DueFrom.text()+l.DueBefore.text() != "" || l.Tenant == "" && l.Correlation != "" {
			return wrong("list", "--due-within excludes --state, --due-from and --due-before, and --correlation without a tenant")
		}
		if *l.DueWithin < 0 {
			return wrong("list", "--due-within must not be negative; 0 finds overdue timers")
		}
		l.State = string(timer.Scheduled)
	}
	switch {
	case l.DueWithin != nil && l.Tenant == "" && l.Prefix == "":
		l.State = ""
		return nil
	case l.Tenant == "" && l.Correlation == "":
		return wrong("list", "name a tenant, or --due-within 1h, or --correlation ID")
	case l.Tenant == "" && l.Prefix+l.State+l.After+l.DueFrom.text()+l.DueBefore.text() != "":
		return wrong("list", "--prefix, --state, --after, --due-from and --due-before go with a tenant")
	}
	if l.After != "" {
		if err := timer.ServiceCallID(l.After).Validate(); err != nil {
			return wrong("list", "--after: %s", detail(err))
		}
	}
	if n := slices.IndexFunc(timer.States[:], func(s timer.State) bool { return strings.EqualFold(l.State, string(s)) }); n >= 0 {
		l.State = string(timer.States[n])
	} else if l.State != "" {
		return wrong("list", "--state must be Scheduled, Reached, Expired or Canceled, not %s", timer.Quote(l.State))
	}
	return nil
}
