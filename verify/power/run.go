//go:build linux

package power

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// Modes are those of package crash in which the power is cut.
var Modes = []crash.Mode{crash.Power, crash.PowerEmbedded}

// Options say what to do.
type Options struct {
	Bin      string     // the service; built if empty
	Mode     crash.Mode // one of Modes
	Cuts     int        // how often the power is cut
	Relaxed  bool       // the service does not sync its database at each commit
	Seed     uint64     // of the commands and of the cuts
	Dir      string     // where the directory of the run is made; default the system's for temporary files
	Keep     bool       // keep that directory even if nothing is wrong
	Progress io.Writer  // a line now and then; default none
}

// Run cuts the power under the service, and reports the results. It returns an
// error if it could not; that the service broke its promises is no error, but in the
// report. The report is of what happened so far even if there is an error.
func Run(ctx context.Context, opt Options) (report crash.Report, err error) {
	dir, err := os.MkdirTemp(opt.Dir, "timer-power-")
	if err != nil {
		return report, fmt.Errorf("make the directory of the run: %w", err)
	}
	d, err := newDisk(ctx, dir)
	if err != nil {
		return report, err
	}
	var settings []string
	if opt.Relaxed {
		settings = []string{"TIMER_DURABILITY=relaxed"}
	}
	report, err = crash.Run(ctx, crash.Options{
		Settings: settings, Bin: opt.Bin, Mode: opt.Mode, Kills: opt.Cuts, Seed: opt.Seed, Dir: dir, Keep: opt.Keep, Progress: opt.Progress,
		Disk: cutter{d, rand.New(rand.NewPCG(opt.Seed, 0x27d4eb2f165667c5))},
	})
	err = errors.Join(err, d.close())
	if err == nil && report.Dir == "" && Void(report) == nil {
		return report, os.RemoveAll(dir)
	}
	report.Dir = dir
	return report, err
}

// Void returns why a run that came to its end proves nothing, or nil if it does.
func Void(r crash.Report) error {
	if r.Fired == 0 {
		return errors.New("no timer fired")
	}
	return nil
}

// A cutter cuts the power of a disk at random.
type cutter struct {
	disk *disk
	rand *rand.Rand
}

// Dir is where the disk is mounted.
func (c cutter) Dir() string { return c.disk.dir }

// Cut cuts the power under a process.
func (c cutter) Cut(ctx context.Context, pid int, kill func() error) error {
	return c.disk.cutUnder(ctx, c.rand, pid, kill)
}
