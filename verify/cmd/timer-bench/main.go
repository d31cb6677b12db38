// Command timer-bench measures the timer service: timer-bench --help lists the
// workloads and flags.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/command"
)

const description = `Measures the timer service with everything real: it builds the service, starts a
broker, the service on a new database, a producer and a consumer, and checks that
every timer fired once and not early. It runs in the module of the service.

With --store postgres a server is started, for which PostgreSQL has to be
installed. Where several stores, numbers of instances or of timers are given, they
are measured in turns, --runs times.

Exit codes: 0 measured, 1 the run failed or is void, 2 wrong flags.`

type cli struct {
	Drain    drainCmd    `cmd:"" help:"Many timers that are due at one instant: how fast they are accepted, and delivered."`
	Steady   steadyCmd   `cmd:"" help:"A steady rate of timers: how late they are."`
	Fairness fairnessCmd `cmd:"" help:"One tenant with very many timers that are due at one instant: how late those of small tenants are meanwhile."`

	Compare compareCmd `cmd:"" help:"Which of two builds of the service is faster, measured in turns."`
	Table   tableCmd   `cmd:"" help:"The rows of the table in docs/performance.md, in Markdown."`

	Store     []crash.Store `default:"sqlite" enum:"sqlite,postgres" help:"Where timers are kept: sqlite, postgres."`
	Instances []int         `default:"1" help:"Processes of the service on one PostgreSQL database."`
	Runs      int           `default:"1" help:"Repeat so often, one after the other."`
	Pending   []int         `default:"0" help:"Timers that wait in the database meanwhile."`
	Kafka     string        `placeholder:"URL" help:"Use this Kafka, which is for tests, instead of NATS: the topics of the service are deleted at first."`
	RoundTrip time.Duration `help:"Of a network between the service and its database and broker, such as 1ms. Its CPU counts as the client's."`
	Set       []string      `placeholder:"NAME=VALUE" help:"A setting of the service, such as TIMER_BATCH_SIZE=1000."`
}

type drainCmd struct {
	Timers int           `short:"n" default:"50000" help:"How many."`
	Lead   time.Duration `help:"From the first command to the due time; default by the number of timers."`
	Bulk   bool          `help:"Schedule 500 timers with each message (ScheduleTimers)."`
}

type steadyCmd struct {
	Rate     []int         `default:"500" help:"Timers a second. Several with commas are measured in turns."`
	Duration time.Duration `default:"30s" help:"How long, after two seconds that do not count."`
}

type fairnessCmd struct {
	Timers int           `short:"n" default:"1000000" help:"How many the great tenant has."`
	Lead   time.Duration `help:"From the beginning, before they are put into the database, to their due time; default by their number."`
}

func main() {
	crash.BrokerMain()
	var c cli
	os.Exit(command.Main("timer-bench", description, &c, c.run))
}

func (c *cli) run(ctx context.Context, verb string) error {
	if c.Runs < 1 || slices.Min(c.Pending) < 0 || c.Compare.Rate < 0 || c.Compare.Confidence <= 0 || c.Compare.Confidence >= 1 {
		return command.WithCode(command.Usage, errors.New("--runs must be above zero, --pending and --rate not below, --confidence between zero and one"))
	}
	opt := bench.Options{Settings: c.Set, RoundTrip: c.RoundTrip, Progress: os.Stderr}
	if c.Kafka != "" {
		opt.Broker, opt.Kafka = crash.Kafka, c.Kafka
	}
	switch verb {
	case "compare <old> <new>":
		return c.compare(ctx, opt, os.Stdout)
	case "table":
		return c.table(ctx, opt, os.Stdout)
	default:
		return c.measure(ctx, verb, opt, os.Stdout)
	}
}

// measure does all runs of a workload, and writes the results, also of runs before an
// error.
func (c *cli) measure(ctx context.Context, name string, opt bench.Options, stdout io.Writer) error {
	results, err := c.results(ctx, name, opt)
	if len(results) > 0 {
		bench.Write(stdout, results...)
	}
	if medians := bench.Medians(results); len(medians) > 0 {
		fmt.Fprintln(stdout)
		bench.Write(stdout, medians...)
	}
	return err
}

// results measures everything that was asked for in turns, until an error.
func (c *cli) results(ctx context.Context, name string, opt bench.Options) (results []bench.Result, err error) {
	measure, rates := bench.Steady, []int{0}
	switch name {
	case "drain":
		measure = bench.Drain
		opt.Timers, opt.Lead, opt.Bulk = c.Drain.Timers, c.Drain.Lead, c.Drain.Bulk
	case "fairness":
		measure = bench.Fairness
		opt.Timers, opt.Lead = c.Fairness.Timers, c.Fairness.Lead
	case "steady":
		opt.Duration, rates = c.Steady.Duration, c.Steady.Rate
	}
	turns := c.turns(opt, rates)
	for n := range c.Runs * len(turns) {
		if n > 0 {
			fmt.Fprintf(opt.Progress, "run %d of %d\n", n+1, c.Runs*len(turns))
		}
		r, err := measure(ctx, turns[n%len(turns)])
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// turns returns the options of each measurement of a round.
func (c *cli) turns(opt bench.Options, rates []int) (turns []bench.Options) {
	for _, opt.Store = range c.Store {
		for _, opt.Instances = range c.Instances {
			if opt.Store != crash.Postgres && opt.Instances > 1 {
				continue
			}
			for _, opt.Pending = range c.Pending {
				for _, opt.Rate = range rates {
					turns = append(turns, opt)
				}
			}
		}
	}
	return turns
}
