package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/bench/inside"
)

// churnTenants is the default.
const churnTenants = 100

// churn churns each store, one after the other. Lines are written as they come.
func (c *cli) churn(ctx context.Context, opt bench.Options, out io.Writer) error {
	for _, kind := range c.Store {
		if err := c.churnOne(ctx, database.Options{Kind: kind, Dir: opt.Dir, URL: opt.DBURL, Relaxed: opt.Relaxed}, out); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) churnOne(ctx context.Context, where database.Options, out io.Writer) (err error) {
	d, err := database.New(ctx, where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Drop()) }()
	onLine := func(l inside.Line) { _ = json.NewEncoder(out).Encode(l) } // an error means that the reader has gone
	if c.Output == "text" {
		fmt.Fprintf(out, "%s\n%8s %8s %8s %9s %7s %9s %9s %9s %6s  %s\n", where.Kind,
			"seconds", "fired/s", "purged/s", "over", "outbox", "poll, ms", "purge, ms", "MiB", "load", "MiB of each part (dead rows)")
		onLine = func(l inside.Line) { writeLine(out, l) }
	}
	_, err = inside.Churn(ctx, d, inside.ChurnOptions{
		Duration: c.Churn.Duration, Keep: c.Churn.Keep, Report: c.Churn.Report, Tenants: cmp.Or(c.Tenants, churnTenants), OnLine: onLine,
	})
	return err
}

// writeLine writes a line for people.
func writeLine(out io.Writer, l inside.Line) {
	const mib = 1 << 20
	var parts []string
	for _, p := range l.Parts {
		name := strings.TrimPrefix(strings.TrimPrefix(p.Name, "idx_"), "timer_")
		text := fmt.Sprintf("%s %.0f", name, float64(p.Bytes)/mib)
		if p.Dead > 0 {
			text += fmt.Sprintf(" (%d)", p.Dead)
		}
		if p.Bytes > mib {
			parts = append(parts, text)
		}
	}
	fmt.Fprintf(out, "%8.0f %8.0f %8.0f %9d %7d %9.0f %9.0f %9.0f %6.1f  %s\n",
		l.Seconds, l.Fired, l.Purged, l.Over, l.Outbox, l.SlowestPoll, l.SlowestPurge, float64(l.Bytes)/mib, l.Load, strings.Join(parts, ", "))
}
