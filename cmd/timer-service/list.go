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

type listCmd struct {
	Tenant      timer.TenantID `arg:"" optional:"" help:"Owner of the timers."`
	Prefix      string         `placeholder:"CALL" help:"Only those whose service call begins so; needs a tenant."`
	State       string         `placeholder:"STATE" default:"" enum:",Scheduled,Reached,Expired,Canceled" help:"Only those Scheduled, Reached, Expired or Canceled; needs a tenant."`
	DueFrom     moment         `placeholder:"TIME" help:"Only those due then or later, as RFC 3339 with a zone; needs a tenant."`
	DueBefore   moment         `placeholder:"TIME" help:"Only those due before then; needs a tenant."`
	DueWithin   *duration      `placeholder:"1h" xor:"all" help:"Those of all tenants that are Scheduled and due before the end of this duration, overdue ones too, soonest first."`
	Limit       int            `default:"100" help:"How many at most, up to 1000."`
	After       string         `placeholder:"CALL" help:"The page after this one: the last service call of the page before, or what that page says."`
	Correlation string         `placeholder:"ID" xor:"all" help:"Only timers with this correlation id; without a tenant, those of all tenants."`
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
    timer-service list acme --state Scheduled --due-before 2h
    timer-service list --correlation req-7`
}

// Run prints the timers.
func (l *listCmd) Run(ctx context.Context, e *env, r reader) error {
	path := apiclient.Path("timers")
	if l.Tenant != "" {
		path = apiclient.Path("tenants", string(l.Tenant), "timers")
	}
	rows := e.out.rows("tenant", "service call", "state", "due at", "fired late", "correlation", "due")
	left, after := l.Limit, l.After
	for more := true; more; more = after != "" && left > 0 && l.Tenant != "" { // a page may be short
		page, err := apiclient.Get[admin.Timers](ctx, r.Client, path+apiclient.Query(
			"prefix", l.Prefix, "state", l.State, "dueFrom", l.DueFrom.text(), "dueBefore", l.DueBefore.text(), "dueWithin", l.DueWithin.milliseconds(),
			"correlationId", l.Correlation, "after", after, "limit", strconv.Itoa(left)))
		if err != nil {
			return err
		}
		for _, t := range page.Timers {
			s := show(t)
			rows.add(s, s.TenantID, s.ServiceCallID, s.State, s.DueAt, s.late(), s.CorrelationID, fromNow(s.DueAt))
		}
		left, after = left-len(page.Timers), page.Next
	}
	rows.end(e, "no timers", after)
	if !e.out.json && l.Tenant == "" && after == "" && left == 0 {
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", l.Limit)
	}
	return nil
}

// Validate refuses flags that do not say of whom the timers are.
func (l *listCmd) Validate() error {
	switch {
	case l.Tenant != "" && l.DueWithin != nil:
		return errors.New("--due-within is about all tenants; with one give --state Scheduled --due-before 1h")
	case l.Tenant == "" && l.DueWithin == nil && l.Correlation == "":
		return errors.New("name a tenant, or --due-within 1h, or --correlation ID")
	case l.Tenant == "" && l.Prefix+l.State+l.DueFrom.text()+l.DueBefore.text() != "":
		return errors.New("--prefix, --state, --due-from and --due-before go with a tenant")
	}
	return nil
}
