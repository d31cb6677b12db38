package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

// detailWidth is how much of a detail a table shows.
const detailWidth = 60

type dlqListCmd struct {
	letterFilter
	Limit int `default:"100" help:"How many at most; 0 is all."`
}

// Help is printed below the summary.
func (dlqListCmd) Help() string {
	return `Reads the broker; nothing is removed. With -o json there is one object a line,
with the body of the original, and nothing if there is no letter.

Examples:

    timer-service dlq list
    timer-service dlq list --tenant acme --reason beyond_horizon --since 24h
    timer-service dlq list --tenant acme --limit 0 -o json`
}

// Run prints the letters.
func (d *dlqListCmd) Run(ctx context.Context, e *env) error {
	f, err := d.filter(e, "dlq list", nil, d.Limit)
	if err != nil {
		return err
	}
	t := newTable("id", "tenant", "reason", "last at", "count", "detail")
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "count", Align: text.AlignRight, AlignHeader: text.AlignRight}})
	return withLetters(ctx, e, "dlq list", func(o *deadletter.Office) (deadletter.Summary, error) {
		sum, err := o.List(ctx, f, func(l deadletter.Letter) error {
			s := showLetter(l)
			if e.out.json {
				e.out.print(s)
				return nil
			}
			t.AppendRow(table.Row{
				printable(s.ID), s.TenantID, printable(orDash(string(s.Reason))), s.LastAt, s.Count, short(s.Detail, detailWidth),
			})
			return nil
		})
		switch {
		case e.out.json:
		case t.Length() > 0:
			fmt.Fprintln(e.out.w, t.Render())
		case err == nil && len(sum.Missing) == 0:
			fmt.Fprintln(e.stderr, "no dead letters")
		}
		if sum.More {
			fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", d.Limit)
		}
		return sum, err
	})
}
