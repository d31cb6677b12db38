package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/bench/inside"
)

// Growth measures the same on databases in which more and more timers wait: what
// the calls of the store cost, and then a steady load on the service. Each
// database is filled once; they are measured in turns. An error that begins with
// "void" says that the figures mean nothing.
func Growth(ctx context.Context, opt Options, pending []int, runs int) (results []Result, err error) {
	opt = opt.withDefaults()
	databases := make([]database.Database, len(pending))
	filled := make([][]database.Part, len(pending))
	for i := range databases {
		opt.Pending = pending[i]
		d, err := opt.database(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, d.Drop()) }()
		if databases[i] = d; opt.Pending == 0 {
			continue
		}
		began := time.Now()
		if err := d.Fill(ctx, opt.pending(), opt.Progress); err != nil {
			return nil, err
		}
		fmt.Fprintf(opt.Progress, "%d timers are there after %v\n", opt.Pending, time.Since(began).Round(time.Second))
		if filled[i], err = d.Parts(ctx); err != nil {
			return nil, err
		}
	}
	for run := range runs {
		for i, d := range databases {
			opt.Pending = pending[i]
			fmt.Fprintf(opt.Progress, "turn %d of %d, with %d timers\n", run+1, runs, opt.Pending)
			r, err := grown(ctx, opt, d)
			if err != nil {
				return results, err
			}
			r.Parts = filled[i]
			results = append(results, r)
		}
	}
	return results, nil
}

// grown measures one database, when the disk has what was written to the others.
func grown(ctx context.Context, opt Options, d database.Database) (r Result, err error) {
	syscall.Sync()
	load := opt.pending()
	costs, err := inside.Measure(ctx, d, inside.CostOptions{Tenants: opt.Tenants, From: load.From, Over: load.Over})
	if err != nil {
		return r, err
	}
	s := newSystem(opt)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err := s.serve(ctx, d); err != nil {
		return r, err
	}
	r, err = s.steady(ctx)
	r.Workload, r.Costs = "growth", &costs
	return r, err
}
