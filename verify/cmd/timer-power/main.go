//go:build linux

// Command timer-power takes the power away from the disk of the timer service
// again and again while it works, and checks that no timer was lost: timer-power
// --help lists its flags.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/command"
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
	exitVoid   = 3
	exitUnable = 4
)

type cli struct {
	Cuts    int    `default:"50" help:"How often to cut the power in each run."`
	Relaxed bool   `help:"The service runs with TIMER_DURABILITY=relaxed, in the mode power alone."`
	Seed    uint64 `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Keep    bool   `help:"Keep the directories of disks and logs even if nothing is wrong."`
}

// controls is how often the power is cut under each control.
const controls = 5

func main() {
	crash.BrokerMain()
	power.WriterMain()
	var c cli
	os.Exit(command.Main("timer-power", description, &c, func(ctx context.Context, _ string) error { return c.run(ctx) }))
}

// run does the controls and the runs, and shows the result of each.
func (c *cli) run(ctx context.Context) error {
	if _, err := power.Missing(); err != nil {
		return command.WithCode(exitUnable, fmt.Errorf("SKIPPED, NOTHING IS PROVEN: %w", err))
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1<<32) + 1
	}
	fmt.Fprintf(os.Stderr, "seed %d\n", c.Seed) // at once, so that a test that hangs can be repeated
	opt := power.Options{Cuts: controls, Seed: c.Seed, Keep: c.Keep, Progress: os.Stderr}
	control, err := power.Control(ctx, opt)
	if err != nil {
		return err
	}
	control.Write(os.Stdout)
	if control.Void() != nil {
		return command.WithCode(exitVoid, command.ErrFailed)
	}
	opt.Cuts, opt.Relaxed = max(c.Cuts, 1), c.Relaxed
	modes := power.Modes
	if c.Relaxed {
		modes = []crash.Mode{crash.Power}
		fmt.Println("relaxed: a cut may take the newest commits of the database; the broker has their commands and events, so nothing may be lost. The mode power-embedded would lose the ends of the streams, too: there is no promise to judge")
	}
	var result error
	for _, opt.Mode = range modes {
		report, err := power.Run(ctx, opt)
		fmt.Println()
		report.Write(os.Stdout)
		switch void := power.Void(report); {
		case err != nil:
			return err
		case report.Violations() > 0:
			result = command.ErrFailed
		case void != nil && result == nil:
			result = command.WithCode(exitVoid, fmt.Errorf("this proves nothing: %w", void))
		}
	}
	return result
}
