// Command timer-crash kills the timer service again and again while it works,
// and checks that no timer was lost: timer-crash --help lists its flags.
package main

import (
	"context"
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

	"github.com/event-service-agent/timer-service/verify/crash"
)

const description = `Starts a broker and the service, one or several instances of it on one
database, sends it commands, and kills it again and again. When all has come to
rest it checks, from what a client can see, that every timer fired or was
canceled, that none fired early, twice or for nothing, and that every invalid
message is in the dead letters.

Without --bin it builds the service, so it runs in the module of the service.

Modes: kill (SIGKILL), term (SIGTERM and wait), stop (SIGSTOP for a while),
broker (SIGKILL for the broker), both (SIGKILL for broker and service), store
(the end of all connections with the database, or SIGKILL for a server of the
run's own), embedded (SIGKILL for a service with the broker inside), step (the
service kills itself when it passes a step in its code; that has to be built
with -tags failpoint). Of several instances a fault hits any one, and the
others go on.

Mode upgrade begins with an older version, that of the commit --old, kills the
instances as in kill, starts one of the version under test beside them, and then
replaces the others with it, one at each kill. A file has one instance, which is
replaced while it is killed.

Modes that lose what is stored, in which all instances are hit: wipe (SIGKILL,
and the database is deleted), rollback (SIGKILL, and an older copy of the
database is put in its place, which was made while the service ran),
empty-broker (SIGKILL for broker and service, and all that the broker has is deleted). In them an event that the
broker had a second before the kill must not be published again.

Brokers: nats (nats-server, part of this program), kafka (kfake, a server that
speaks Kafka's protocol; it is built), rabbitmq (RabbitMQ, which has to be
installed). Modes that kill the broker need nats, or kafka if they empty it;
those that lose what is stored need a broker that keeps what was read.

Stores: sqlite, postgres. With postgres the run makes a database of its own on
the server of $TIMER_TEST_POSTGRES, and drops it in the end, or starts a server, for
which PostgreSQL has to be installed.

Exit codes: 0 nothing is wrong, 1 something is, or the test could not run, 2
wrong flags.`

const (
	exitFailure = 1
	exitUsage   = 2
)

type cli struct {
	Kills     int         `default:"10" help:"How often to kill the service; with --mode step at each step."`
	Broker    crash.Kind  `default:"nats" enum:"nats,kafka,rabbitmq" help:"Which broker to use: nats, kafka or rabbitmq."`
	Store     crash.Store `default:"sqlite" enum:"sqlite,postgres" help:"Which database to use: sqlite or postgres."`
	Instances int         `default:"1" help:"How many of the service share the database; more than one needs --store postgres."`
	Mode      crash.Mode  `default:"kill" enum:"${modes}" placeholder:"MODE" help:"What to do: ${modes}."`
	Seed      uint64      `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Old       string      `placeholder:"COMMIT" help:"With --mode upgrade: the older version; the newest tag if empty."`
	Bin       string      `type:"existingfile" placeholder:"FILE" help:"Binary of the service; it is built if there is none."`
	Keep      bool        `help:"Keep the directory with data and logs even if nothing is wrong."`
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
		kong.Vars{"modes": modes()},
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	if err == nil {
		_, err = k.Parse(args)
	}
	if helped {
		return 0
	}
	if err == nil && (c.Kills < 1 || c.Instances < 1) {
		err = errors.New("--kills and --instances must be above zero")
	}
	var opt crash.Options
	if err == nil {
		opt = c.options(stderr)
		err = opt.Check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-crash:", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "seed %d\n", opt.Seed) // at once, so that a test that hangs can be repeated
	report, err := crash.Run(ctx, opt)
	report.Write(stdout)
	if err != nil {
		fmt.Fprintln(stderr, "timer-crash:", err)
	}
	if err != nil || report.Violations() > 0 {
		return exitFailure
	}
	return 0
}

// modes are all of them, as a list.
func modes() string {
	var all []string
	for _, m := range crash.Modes {
		all = append(all, string(m))
	}
	return strings.Join(all, ",")
}

// options are what the flags say.
func (c cli) options(progress io.Writer) crash.Options {
	opt := crash.Options{
		Now: time.Now, Bin: c.Bin, Old: c.Old, Broker: c.Broker, Store: c.Store, Instances: c.Instances,
		Mode: c.Mode, Kills: c.Kills, Seed: c.Seed, Keep: c.Keep, Progress: progress,
	}
	if c.Store == crash.Postgres {
		opt.StoreURL = os.Getenv("TIMER_TEST_POSTGRES")
	}
	if opt.Seed == 0 {
		opt.Seed = rand.Uint64N(1<<32) + 1
	}
	return opt
}
