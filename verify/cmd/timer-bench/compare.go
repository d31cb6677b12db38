package main

import (
	"context"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
)

type compareCmd struct {
	Old        string        `arg:"" type:"existingfile" help:"A binary of the service."`
	New        string        `arg:"" type:"existingfile" help:"Another one, on a database of the same schema."`
	Timers     int           `short:"n" default:"50000" help:"How many are due at one instant."`
	Lead       time.Duration `help:"From the first command to the due time; default by the number of timers."`
	Rate       int           `help:"Timers a second, at a steady rate for --duration, in place of a drain."`
	Duration   time.Duration `default:"10s" help:"Of a steady rate, after two seconds that do not count."`
	Confidence float64       `default:"0.95" help:"Of the intervals. With seven figures at 0.95, one comparison in three of the same finds a difference somewhere."`
}

// compare measures a drain, or a steady rate, of two binaries in --runs rounds.
func (c *cli) compare(ctx context.Context, opt bench.Options, out io.Writer) error {
	opt.Store, opt.Instances, opt.Pending = c.Store[0], c.Instances[0], c.Pending[0]
	opt.Timers, opt.Lead = c.Compare.Timers, c.Compare.Lead
	measure := bench.Drain
	if c.Compare.Rate > 0 {
		measure, opt.Rate, opt.Duration = bench.Steady, c.Compare.Rate, c.Compare.Duration
	}
	contender := func(name, bin string) bench.Contender {
		return bench.Contender{Name: name, Measure: func(ctx context.Context) (bench.Result, error) {
			opt := opt
			opt.Bin = bin
			return measure(ctx, opt)
		}}
	}
	results, err := bench.Compare(ctx, max(2, c.Runs), opt.Progress, contender("old", c.Compare.Old), contender("new", c.Compare.New))
	if err != nil {
		return err
	}
	all, err := bench.CompareResults(results[0], results[1], c.Compare.Confidence)
	if err != nil {
		return err
	}
	bench.WriteComparisons(out, all)
	return nil
}
