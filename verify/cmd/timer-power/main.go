//go:build linux

// Command timer-power takes the power away from the disk of the timer service
// again and again while it works, and checks that no timer was lost: timer-power
// --help lists its flags.
package main

import (
	"context"
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

Needs Linux, root, loop devices and mkfs.ext4. It builds the service, so it runs in
the module of the service.

First come two controls: a program that syncs what it acks must lose nothing,
one that does not must lose something. Then come two runs, which must lose
nothing: in the mode power the broker outlives the cuts, in the mode
power-embedded its streams are on the same disk.

Exit codes: 0 all is as it must be, 1 something was lost or went wrong, 2 wrong
flags, 3 a control says that the cuts prove nothing, 4 the power can't be cut on
this machine: nothing was tested.`

const (
	exitFailure = 1
	exitUsage   = 2
	exitVoid    = 3
	exitUnable  = 4
)

type cli struct {
	Cuts int    `default:"50" help:"How often to cut the power in each run."`
	Seed uint64 `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Keep bool   `help:"Keep the directories of disks and logs even if nothing is wrong."`
}

// controls is how often the power is cut under each control.
const controls = 5

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
	if err == nil && c.Cuts < 1 {
		err = errors.New("--cuts must be above zero")
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

	code, err := c.test(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "timer-power:", err)
		code = exitFailure
	}
	return code
}

// test does the controls and the runs, shows what came of each, and returns the
// exit code.
func (c *cli) test(ctx context.Context, show, progress io.Writer) (code int, err error) {
	opt := power.Options{Now: time.Now, Cuts: controls, Seed: c.Seed, Keep: c.Keep, Progress: progress}
	control, err := power.Control(ctx, opt)
	if err != nil {
		return exitFailure, err
	}
	control.Write(show)
	if control.Void() != nil {
		return exitVoid, nil
	}
	opt.Cuts = c.Cuts
	for _, opt.Mode = range power.Modes {
		report, err := power.Run(ctx, opt)
		fmt.Fprintln(show)
		report.Write(show)
		switch {
		case err != nil:
			return exitFailure, err
		case report.Violations() > 0:
			code = exitFailure
		case power.Void(report) != nil && code == 0:
			fmt.Fprintln(show, "this proves nothing:", power.Void(report))
			code = exitVoid
		}
	}
	return code, nil
}
