// Command timer-crash kills the timer service again and again while it works,
// and checks that no timer was lost: timer-crash --help lists its flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/internal/crash"
)

const description = `Starts a broker and the service, sends it commands, and kills it again and
again. When all has come to rest it checks, from what a client can see, that
every timer fired or was canceled, that none fired early, twice or for nothing,
and that every invalid message is in the dead letters.

Without --bin it builds the service, so it runs in the module of the service.

Modes: kill (SIGKILL), term (SIGTERM and wait), stop (SIGSTOP for a while),
broker (SIGKILL for the broker), both (SIGKILL for broker and service), embedded
(SIGKILL for a service with the broker inside), step (the service kills itself
when it passes a step in its code; that has to be built with -tags failpoint).

Brokers: nats (nats-server, part of this program), kafka (kfake, a server that
speaks Kafka's protocol; it is built), rabbitmq (RabbitMQ, which has to be
installed). Modes that strike the broker need nats.

Exit codes: 0 nothing is wrong, 1 something is, or the test could not run, 2
wrong flags.`

const (
	exitFailure = 1
	exitUsage   = 2
)

type cli struct {
	Kills   int           `default:"10" help:"How often to kill the service; with --mode step at each step."`
	Rate    int           `default:"200" help:"Commands a second."`
	Tenants int           `default:"20" help:"Tenants that send them."`
	Broker  crash.Kind    `default:"nats" enum:"nats,kafka,rabbitmq" help:"Which broker to use: nats, kafka or rabbitmq."`
	Mode    crash.Mode    `default:"kill" enum:"kill,term,stop,broker,both,embedded,step" help:"What to do: kill, term, stop, broker, both, embedded or step."`
	Step    string        `enum:"all,${steps}" default:"all" placeholder:"STEP" help:"With --mode step: all, ${steps}."`
	Seed    uint64        `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Settle  time.Duration `default:"2m" help:"How long the service may take to come to rest in the end."`
	Bin     string        `type:"existingfile" placeholder:"FILE" help:"Binary of the service; it is built if there is none."`
	Dir     string        `type:"existingdir" help:"Where to make the directory for data and logs; the system's for temporary files if empty."`
	Keep    bool          `help:"Keep that directory even if nothing is wrong."`
	Output  string        `short:"o" enum:"text,json" default:"text" placeholder:"FORM" help:"Form of the report: text for people, or json."`
}

func main() {
	if crash.IsBroker() {
		if err := crash.ServeBroker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "timer-crash:", err)
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
	k, err := kong.New(&c, kong.Name("timer-crash"), kong.Description(description),
		kong.Vars{"steps": strings.Join(crash.Steps(), ",")},
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	if err == nil {
		_, err = k.Parse(args)
	}
	if helped {
		return 0
	}
	if err == nil && (c.Kills < 1 || c.Rate < 1 || c.Tenants < 1 || c.Settle <= 0) {
		err = errors.New("--kills, --rate, --tenants and --settle must be above zero")
	}
	if err == nil && c.Step != "all" && c.Mode != crash.Step {
		err = errors.New("--step goes with --mode step")
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-crash:", err)
		return exitUsage
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1<<32) + 1
	}
	fmt.Fprintf(stderr, "seed %d\n", c.Seed) // at once, so that a test that hangs can be repeated

	var steps []string // all
	if c.Step != "all" {
		steps = []string{c.Step}
	}
	report, err := crash.Run(ctx, crash.Options{
		Now: time.Now, Bin: c.Bin, Broker: c.Broker, Mode: c.Mode, Kills: c.Kills, Steps: steps, Rate: c.Rate, Tenants: c.Tenants,
		Seed: c.Seed, Settle: c.Settle, Dir: c.Dir, Keep: c.Keep, Progress: stderr,
	})
	if c.Output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(report))
	} else {
		report.Write(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-crash:", err)
	}
	if err != nil || report.Violations() > 0 {
		return exitFailure
	}
	return 0
}
