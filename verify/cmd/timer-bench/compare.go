package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
)

type compareCmd struct {
	Old        string        `arg:"" type:"existingfile" help:"A binary of the service."`
	New        string        `arg:"" type:"existingfile" help:"Another one, on a database of the same schema."`
	Workload   string        `enum:"drain,steady" default:"drain" help:"What is measured: drain or steady."`
	Timers     int           `short:"n" default:"50000" help:"How many, with drain."`
	Lead       time.Duration `help:"From the first command of a drain to the due time; default by the number of timers."`
	Bulk       bool          `help:"With drain, schedule 500 timers with each message (ScheduleTimers)."`
	Rate       int           `default:"500" help:"Timers a second, with steady."`
	Duration   time.Duration `default:"10s" help:"How long, with steady."`
	Confidence float64       `default:"0.95" help:"Of the intervals. With seven figures at 0.95, one comparison in three of the same finds a difference somewhere."`
	Peers      []string      `enum:"native,river" placeholder:"native,river" help:"Measure these in the same turns, and compare the new binary with them."`
}

// compare measures two binaries, and peers if any, in --runs rounds.
func (c *cli) compare(ctx context.Context, opt bench.Options, out io.Writer) error {
	cmd := c.Compare
	opt.Broker, opt.Store, opt.Instances, opt.Pending = c.Broker[0], c.Store[0], c.Instances[0], c.Pending[0]
	opt.Timers, opt.Lead, opt.Bulk, opt.Rate, opt.Duration = cmd.Timers, cmd.Lead, cmd.Bulk, cmd.Rate, cmd.Duration
	measure, river := bench.Drain, bench.River
	if cmd.Workload == "steady" {
		measure, river = bench.Steady, bench.RiverSteady
	}
	contender := func(name, bin string, measure func(context.Context, bench.Options) (bench.Result, error)) bench.Contender {
		return bench.Contender{Name: name, Measure: func(ctx context.Context) (bench.Result, error) {
			opt := opt
			opt.Bin = bin
			return measure(ctx, opt)
		}}
	}
	contenders := []bench.Contender{contender("old", cmd.Old, measure), contender("new", cmd.New, measure)}
	for _, peer := range cmd.Peers {
		if peer == "native" {
			contenders = append(contenders, contender(peer, "", bench.Native))
		} else {
			contenders = append(contenders, contender(peer, "", river))
		}
	}
	results, err := bench.Compare(ctx, max(2, c.Runs), opt.Progress, contenders...)
	if err != nil {
		return err
	}
	var all []bench.Comparison
	for i, k := range contenders {
		if k.Name == "new" {
			continue
		}
		some, err := bench.CompareResults(k.Name, "new", results[i], results[1], cmd.Confidence)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	if c.Output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Comparisons []bench.Comparison `json:"comparisons"`
			Results     [][]bench.Result   `json:"results"` // of the old, the new and the peers
		}{all, results})
	}
	bench.WriteComparisons(out, all)
	return nil
}
