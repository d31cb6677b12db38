package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/timer"
)

// maxPage is the most timers a page holds.
const maxPage = 1000

type listCmd struct {
	Tenant      string `arg:"" optional:"" help:"Owner of the timers."`
	State       string `placeholder:"STATE" help:"Only those Scheduled, Reached or Canceled."`
	Limit       int    `default:"100" help:"How many at most, up to 1000."`
	After       string `placeholder:"CALL" help:"Only service calls after this one: the last of the page before."`
	Correlation string `placeholder:"ID" help:"Timers with this correlation id, of whatever tenant, instead of those of one tenant."`
}

// Help is printed below the summary.
func (listCmd) Help() string {
	return `Reads the database, whether the service runs or not. Timers are ordered by
service call. With -o json there is one object a line, and nothing if there is
no timer.

Examples:

    timer-service list acme
    timer-service list acme --state Scheduled --limit 1000 -o json
    timer-service list acme --after order-99
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
	var entries []timer.Entry
	if l.Correlation != "" {
		entries, err = r.Correlated(ctx, l.Correlation, l.Limit)
	} else {
		entries, err = r.List(ctx, timer.TenantID(l.Tenant), filter)
	}
	if err != nil {
		return err
	}
	if e.out.json {
		for _, entry := range entries {
			e.out.print(show(entry))
		}
		return nil
	}
	l.table(e, entries)
	return nil
}

// filter returns what is asked for, if that makes sense.
func (l *listCmd) filter() (timer.Filter, error) {
	filter := timer.Filter{After: timer.ServiceCallID(l.After), Limit: l.Limit}
	switch {
	case l.Tenant == "" && l.Correlation == "":
		return filter, wrong("list", "name a tenant, or --correlation ID")
	case l.Tenant != "" && l.Correlation != "":
		return filter, wrong("list", "a tenant and --correlation exclude each other; give one")
	case l.Correlation != "" && (l.State != "" || l.After != ""):
		return filter, wrong("list", "--state and --after go with a tenant, not with --correlation")
	case l.Limit < 1 || l.Limit > maxPage:
		return filter, wrong("list", "--limit must be from 1 to %d, not %d", maxPage, l.Limit)
	}
	if l.Correlation != "" {
		if err := timer.ValidateID("--correlation", l.Correlation); err != nil {
			return filter, refused("list", err)
		}
		return filter, nil
	}
	if err := timer.TenantID(l.Tenant).Validate(); err != nil {
		return filter, refused("list", err)
	}
	if l.After != "" {
		if err := filter.After.Validate(); err != nil {
			return filter, wrong("list", "--after: %s", detail(err))
		}
	}
	return filter, l.only(&filter)
}

// only sets the state to look for, in whatever case it was written.
func (l *listCmd) only(filter *timer.Filter) error {
	if l.State == "" {
		return nil
	}
	for _, s := range []timer.State{timer.Scheduled, timer.Reached, timer.Canceled} {
		if strings.EqualFold(l.State, string(s)) {
			filter.State = s
			return nil
		}
	}
	return wrong("list", "--state must be Scheduled, Reached or Canceled, not %s", timer.Quote(l.State))
}

// table prints the timers for people, and what there is to know beside them.
func (l *listCmd) table(e *env, entries []timer.Entry) {
	if len(entries) == 0 {
		fmt.Fprintln(e.stderr, "no timers")
		return
	}
	t := newTable("tenant", "service call", "state", "due at", "late", "correlation")
	for _, entry := range entries {
		s := show(entry)
		t.AppendRow(table.Row{s.TenantID, s.ServiceCallID, s.State, s.DueAt, s.late(), orDash(s.CorrelationID)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "late", Align: text.AlignRight, AlignHeader: text.AlignRight}})
	fmt.Fprintln(e.out.w, t.Render())
	if len(entries) < l.Limit {
		return
	}
	if l.Correlation != "" {
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", l.Limit)
		return
	}
	fmt.Fprintf(e.stderr, "there may be more: --after %s\n", entries[len(entries)-1].ServiceCallID)
}

// newTable returns a table without lines, which people read and awk splits.
func newTable(headers ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(headers)
	return t
}
