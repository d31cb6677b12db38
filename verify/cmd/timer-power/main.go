//go:build linux

// Command timer-power takes the power away from the disk of the timer service
// again and again while it works, and checks that no timer was lost: timer-power
// --help lists its flags.
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
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/power"
)

const description = `Runs the service with its data on a disk of its own, sends it commands, and
takes the power away from that disk again and again. When all has come to rest
it checks, from what a client can see, that nothing was lost that was acked.

Needs Linux, root, loop devices and mkfs.ext4. Without --bin it builds the
service, so it runs in the module of the service.

First come two controls: a program that syncs what it acks must lose nothing,
one that does not must lose something. Then a run for each layout (database:
the broker outlives the cuts; embedded: its streams are on the same disk), which
must lose nothing.

Exit codes: 0 all is as it must be, 1 something was lost or went wrong, 2 wrong
flags, 3 a control says that the cuts prove nothing, 4 the power can't be cut on
this machine: nothing was tested.`

const (
	exitFailure = 1
	exitUsage   = 2
	exitVoid    = 3
	exitUnable  = 4
)

const all = "all"

type cli struct {
	Cuts     int           `default:"50" help:"How often to cut the power in a run."`
	Controls int           `default:"5" help:"How often to cut it under each control."`
	Runs     int           `default:"1" help:"How often to repeat each run, with a new disk and the next seed."`
	Rate     int           `default:"200" help:"Commands a second."`
	Tenants  int           `default:"20" help:"Tenants that send them."`
	Layout   string        `default:"all" enum:"all,database,embedded" help:"What is on the disk: database, embedded, or all one after the other."`
	Seed     uint64        `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Settle   time.Duration `default:"2m" help:"How long the service may take to come to rest in the end of a run."`
	Bin      string        `type:"existingfile" placeholder:"FILE" help:"Binary of the service; it is built if there is none."`
	Dir      string        `type:"existingdir" help:"Where to make the directories for disks and logs; the system's for temporary files if empty."`
	Keep     bool          `help:"Keep those directories even if nothing is wrong."`
	Output   string        `short:"o" enum:"text,json" default:"text" placeholder:"FORM" help:"Form of the report: text for people, or json."`
}

// A report is of everything that was done.
type report struct {
	Seed    uint64              `json:"seed"`
	Control power.ControlReport `json:"control"`
	Runs    []power.Report      `json:"runs"`
}

func main() {
	if serve, ok := part(); ok {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "timer-power:", err)
			os.Exit(exitFailure)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// part returns what this process was started to be, if that is a part of a test.
func part() (serve func() error, ok bool) {
	switch {
	case crash.IsBroker():
		return func() error { return crash.ServeBroker(os.Stdin, os.Stdout) }, true
	case power.IsWriter():
		return func() error { return power.ServeWriter(os.Stdout) }, true
	}
	return nil, false
}

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	helped := false
	k, err := kong.New(&c, kong.Name("timer-power"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	if err == nil {
		_, err = k.Parse(args)
	}
	if helped {
		return 0
	}
	if err == nil && (c.Cuts < 1 || c.Controls < 1 || c.Runs < 1 || c.Rate < 1 || c.Tenants < 1 || c.Settle <= 0) {
		err = errors.New("--cuts, --controls, --runs, --rate, --tenants and --settle must be above zero")
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-power:", err)
		return exitUsage
	}
	if _, err := power.Missing(); err != nil {
		fmt.Fprintln(stderr, "timer-power: SKIPPED, NOTHING IS PROVEN:", err)
		return exitUnable
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1<<32) + 1
	}
	fmt.Fprintf(stderr, "seed %d\n", c.Seed) // at once, so that a test that hangs can be repeated

	var show io.Writer = io.Discard
	if c.Output == "text" {
		show = stdout
	}
	r, code, err := c.test(ctx, show, stderr)
	if c.Output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(r))
	}
	if err != nil {
		fmt.Fprintln(stderr, "timer-power:", err)
		code = exitFailure
	}
	return code
}

// test does the controls and the runs, shows what came of each, and returns the
// exit code. With an error the report is of what happened so far.
func (c *cli) test(ctx context.Context, show, progress io.Writer) (r report, code int, err error) {
	opt := power.Options{
		Now: time.Now, Bin: c.Bin, Cuts: c.Controls, Rate: c.Rate, Tenants: c.Tenants,
		Seed: c.Seed, Settle: c.Settle, Dir: c.Dir, Keep: c.Keep, Progress: progress,
	}
	r.Seed = c.Seed
	if r.Control, err = power.Control(ctx, opt); err != nil {
		return r, exitFailure, err
	}
	r.Control.Write(show)
	if r.Control.Void() != nil {
		return r, exitVoid, nil
	}
	for _, opt := range c.runs(opt) {
		fmt.Fprintf(progress, "layout %s, seed %d\n", opt.Layout, opt.Seed)
		one, err := power.Run(ctx, opt)
		r.Runs = append(r.Runs, one)
		fmt.Fprintln(show)
		one.Write(show)
		switch {
		case err != nil:
			return r, exitFailure, err
		case one.Violations() > 0:
			code = exitFailure
		case one.Void() != nil && code == 0:
			code = exitVoid
		}
	}
	return r, code, nil
}

// runs returns the runs that the flags ask for.
func (c *cli) runs(opt power.Options) (runs []power.Options) {
	for _, l := range power.Layouts {
		if c.Layout != all && c.Layout != string(l) {
			continue
		}
		opt.Layout, opt.Cuts = l, c.Cuts
		for i := range c.Runs {
			opt.Seed = c.Seed + uint64(i)
			runs = append(runs, opt)
		}
	}
	return runs
}
