// Command timer-bench measures the timer service: timer-bench --help lists the
// workloads and flags.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/crash"
)

const description = `Measures the timer service with everything real: it starts a broker, the
service on a new database, a producer and a consumer, and checks that every
timer fired once and not early.

With --store postgres the database is made on the server of --db-url, and dropped
in the end. Where several brokers, stores or numbers of instances are given, they
are measured in turns, --runs times.

Without --bin it builds the service, so it runs in the module of the service.

Exit codes: 0 measured, 1 the run failed or is void, 2 wrong flags.`

const (
	exitFailure = 1
	exitUsage   = 2
)

type cli struct {
	Drain  drainCmd  `cmd:"" help:"Many timers that are due at one instant: how fast they are accepted, and delivered."`
	Steady steadyCmd `cmd:"" help:"A steady rate of timers: how late they are."`
	Native nativeCmd `cmd:"" help:"The work of drain, done by the scheduler of NATS itself."`
	River  riverCmd  `cmd:"" help:"The work of drain, or with --rate that of steady, done by River on PostgreSQL."`

	Compare compareCmd `cmd:"" help:"Which of two builds of the service is faster, measured in turns."`
	Table   tableCmd   `cmd:"" help:"The rows of the table in docs/performance.md, in Markdown."`

	Held     heldCmd     `cmd:"" help:"A steady rate on PostgreSQL while a transaction holds a snapshot, beside River: how late timers are before, meanwhile and afterwards."`
	Chaos    chaosCmd    `cmd:"" help:"A steady rate of timers while parts fail: the table in docs/reliability.md, in Markdown."`
	Growth   growthCmd   `cmd:"" help:"The same with more and more timers waiting: what the store's calls cost, how late timers are, how large it is."`
	Fairness fairnessCmd `cmd:"" help:"One tenant with very many timers that are due at one instant: how late those of small tenants are beside it."`

	Store     []database.Kind `default:"sqlite" enum:"sqlite,postgres" help:"Where timers are kept: sqlite, postgres."`
	DBURL     string          `name:"db-url" env:"TIMER_TEST_POSTGRES" placeholder:"URL" help:"The PostgreSQL server; of a role that may create databases."`
	Instances []int           `default:"1" help:"Processes of the service on one PostgreSQL database."`

	Broker   []crash.Kind `default:"nats" enum:"nats,kafka,rabbitmq" help:"Which broker to start: nats, kafka (kfake, a server that speaks Kafka's protocol; it is built) or rabbitmq (which has to be installed). Several with commas are measured in turns."`
	Runs     int          `default:"1" help:"Repeat so often, one after the other."`
	Tenants  int          `help:"Tenants that the timers belong to; default 20, with fairness 300, beside the great one."`
	Pending  []int        `default:"0" help:"Timers that wait in the database meanwhile."`
	Embedded bool         `help:"The broker is the one embedded in the service."`
	Set      []string     `placeholder:"NAME=VALUE" help:"A setting of the service, such as TIMER_BATCH_SIZE=1000."`
	Bin      string       `type:"existingfile" placeholder:"FILE" help:"Binary of the service; it is built if there is none."`
	Dir      string       `type:"existingdir" help:"Where the data of a run are kept; the system's for temporary files if empty."`
	SVG      string       `name:"svg" type:"path" placeholder:"FILE" help:"Draw how late timers were into this file."`
	Output   string       `short:"o" enum:"text,json" default:"text" placeholder:"FORM" help:"Form of the results: text for people, or json."`
}

type drainCmd struct {
	Timers int           `short:"n" default:"50000" help:"How many."`
	Lead   time.Duration `help:"From the first command to the due time; default by the number of timers."`
	Bulk   bool          `help:"Schedule 500 timers with each message (ScheduleTimers)."`
	First  int           `help:"Schedule so many others before, through the broker too, which are due at random within 30 days."`
}

type steadyCmd struct {
	Rate     []int         `default:"500" help:"Timers a second. Several with commas are measured in turns."`
	Duration time.Duration `default:"30s" help:"How long, after two seconds that do not count."`
}

type fairnessCmd struct {
	Timers int           `short:"n" default:"1000000" help:"How many the great tenant has."`
	Lead   time.Duration `help:"From the beginning, before they are put into the database, to their due time; default by their number."`
}

type growthCmd struct {
	Rate     int           `default:"500" help:"Timers a second."`
	Duration time.Duration `default:"20s" help:"How long, after two seconds that do not count."`
}

type riverCmd struct {
	Timers   int           `short:"n" default:"50000" help:"How many."`
	Lead     time.Duration `help:"From the first job to the due time; default by the number of timers."`
	Rate     int           `help:"Timers a second, instead of many at one instant."`
	Duration time.Duration `default:"30s" help:"How long, with --rate, after two seconds that do not count."`
}

type nativeCmd struct {
	Timers int           `short:"n" default:"50000" help:"How many."`
	Lead   time.Duration `help:"From the first command to the due time; default by the number of timers."`
}

func main() {
	if crash.IsBroker() {
		if err := crash.ServeBroker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "timer-bench:", err)
			os.Exit(exitFailure)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	helped := false
	k, err := kong.New(&c, kong.Name("timer-bench"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	var chosen *kong.Context
	if err == nil {
		chosen, err = k.Parse(args)
	}
	if helped {
		return 0
	}
	if err == nil && (c.Runs < 1 || c.Tenants < 0 || slices.Min(c.Pending) < 0) {
		err = errors.New("--runs must be above zero, --tenants and --pending not below")
	}
	if err == nil && (c.Compare.Confidence <= 0 || c.Compare.Confidence >= 1) {
		err = errors.New("--confidence must be between zero and one")
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-bench:", err)
		return exitUsage
	}
	opt := bench.Options{
		Tenants: c.Tenants, Embedded: c.Embedded,
		Settings: c.Set, DBURL: c.DBURL, Bin: c.Bin, Dir: c.Dir, Progress: stderr,
	}
	switch chosen.Command() {
	case "chaos":
		err = c.chaos(ctx, opt, stdout)
	case "compare <old> <new>":
		err = c.compare(ctx, opt, stdout)
	case "held":
		err = c.held(ctx, opt, stdout)
	case "table":
		err = c.table(ctx, opt, stdout)
	default:
		err = c.measure(ctx, chosen.Command(), opt, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-bench:", err)
		return exitFailure
	}
	return 0
}

// measure does all runs of a workload, and writes what came out.
func (c *cli) measure(ctx context.Context, name string, opt bench.Options, stdout, stderr io.Writer) error {
	var results []bench.Result
	var err error
	if name == "growth" {
		results, err = c.growth(ctx, opt)
	} else {
		measure, rates := c.workload(name, &opt), []int{opt.Rate}
		if name == "steady" {
			rates = c.Steady.Rate
		}
		turns := c.turns(rates)
		results, err = repeat(ctx, c.Runs*len(turns), stderr, func(n int) (bench.Result, error) {
			turn := turns[n%len(turns)]
			opt.Broker, opt.Store, opt.Instances, opt.Pending = turn.broker, turn.store, turn.instances, turn.pending
			opt.Rate = turn.rate
			return measure(ctx, opt)
		})
	}
	if c.Output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(results))
	} else if len(results) > 0 {
		bench.Write(stdout, results...)
		if medians := bench.Medians(results); len(medians) > 0 {
			fmt.Fprintln(stdout)
			bench.Write(stdout, medians...)
		}
	}
	if err == nil && c.SVG != "" {
		err = draw(c.SVG, results)
	}
	return err
}

// growth measures each store by itself: its databases take a while to fill.
func (c *cli) growth(ctx context.Context, opt bench.Options) (results []bench.Result, err error) {
	opt.Rate, opt.Duration, opt.Broker = c.Growth.Rate, c.Growth.Duration, c.Broker[0]
	for _, opt.Store = range c.Store {
		some, err := bench.Growth(ctx, opt, c.Pending, c.Runs)
		results = append(results, some...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// draw writes the picture of the results into a file.
func draw(name string, results []bench.Result) error {
	var picture bytes.Buffer
	if err := bench.Draw(&picture, "Lateness of timers, from the due time to the consumer", results...); err != nil {
		return err
	}
	return os.WriteFile(name, picture.Bytes(), 0o644) //nolint:gosec // readable by all
}

// A turn is what is measured once in each round.
type turn struct {
	broker    crash.Kind
	store     database.Kind
	instances int
	pending   int
	rate      int // of a steady load
}

// turns are all that were asked for together.
func (c *cli) turns(rates []int) (turns []turn) {
	for _, broker := range c.Broker {
		for _, store := range c.Store {
			for _, instances := range c.Instances {
				if store != database.Postgres && instances > 1 {
					continue
				}
				for _, pending := range c.Pending {
					for _, rate := range rates {
						turns = append(turns, turn{broker, store, instances, pending, rate})
					}
				}
			}
		}
	}
	return turns
}

// workload returns what was chosen, and sets its options.
func (c *cli) workload(name string, opt *bench.Options) func(context.Context, bench.Options) (bench.Result, error) {
	switch name {
	case "drain":
		opt.Timers, opt.Lead, opt.Bulk, opt.First = c.Drain.Timers, c.Drain.Lead, c.Drain.Bulk, c.Drain.First
		return bench.Drain
	case "native":
		opt.Timers, opt.Lead = c.Native.Timers, c.Native.Lead
		return bench.Native
	case "river":
		opt.Timers, opt.Lead, opt.Rate, opt.Duration = c.River.Timers, c.River.Lead, c.River.Rate, c.River.Duration
		if opt.Rate > 0 {
			return bench.RiverSteady
		}
		return bench.River
	case "fairness":
		opt.Timers, opt.Lead = c.Fairness.Timers, c.Fairness.Lead
		return bench.Fairness
	default:
		opt.Duration = c.Steady.Duration
		return bench.Steady
	}
}

// repeat measures again and again, until an error.
func repeat(ctx context.Context, runs int, progress io.Writer, measure func(n int) (bench.Result, error)) (results []bench.Result, err error) {
	for n := range runs {
		if runs > 1 {
			fmt.Fprintf(progress, "run %d of %d\n", n+1, runs)
		}
		r, err := measure(n)
		if err != nil {
			return results, err
		}
		results = append(results, r)
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
	}
	return results, nil
}
