//go:build linux

package power

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A ControlReport has the effects of cuts on programs of which it is known what
// they must keep.
type ControlReport struct {
	Cuts     int         // of each
	Synced   WriterCount // of programs that sync before they ack
	Unsynced WriterCount
}

// A WriterCount counts the records of the programs of one kind.
type WriterCount struct {
	Acked   int
	Lost    int    // acked, and gone or spoiled after a cut
	Example string // the first cut that lost some
}

// Void returns why the cuts prove nothing, or nil if they do.
func (c ControlReport) Void() error {
	switch {
	case c.Cuts == 0 || c.Synced.Acked == 0 || c.Unsynced.Acked == 0:
		return errors.New("the controls acked nothing")
	case c.Synced.Lost > 0:
		return fmt.Errorf("a program that syncs lost %d records: %s", c.Synced.Lost, c.Synced.Example)
	case c.Unsynced.Lost == 0:
		return errors.New("a program that never syncs lost nothing: the cuts do not bite")
	}
	return nil
}

// The shortest and the longest time that a writer writes from its first ack on.
var writeTime = span{50 * time.Millisecond, 600 * time.Millisecond}

// Control cuts the power a number of times under a program that syncs before its acks, and
// under one that does not.
func Control(ctx context.Context, opt Options) (report ControlReport, err error) {
	dir, err := os.MkdirTemp(opt.Dir, "timer-power-control-")
	if err != nil {
		return report, fmt.Errorf("make the directory of the control: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := newDisk(ctx, dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, d.close()) }()

	random := rand.New(rand.NewPCG(opt.Seed, 0x165667b19e3779f9))
	for ; report.Cuts < opt.Cuts; report.Cuts++ {
		file := filepath.Join(d.dir, fmt.Sprintf("synced-%d", report.Cuts))
		if err := report.Synced.cut(ctx, d, random, file, "yes"); err != nil {
			return report, fmt.Errorf("control that syncs, cut %d: %w", report.Cuts+1, err)
		}
		file = filepath.Join(d.dir, fmt.Sprintf("unsynced-%d", report.Cuts))
		if err := report.Unsynced.cut(ctx, d, random, file, "no"); err != nil {
			return report, fmt.Errorf("control that does not sync, cut %d: %w", report.Cuts+1, err)
		}
	}
	return report, nil
}

// cut has a writer write for a while, cuts the power, and counts.
func (c *WriterCount) cut(ctx context.Context, d *disk, random *rand.Rand, file, syncs string) error {
	writes := writeTime.any(random)
	w, err := startWriter(ctx, file, syncs)
	if err != nil {
		return err
	}
	defer w.Kill() //nolint:errcheck // one that was killed before stays so
	if !pause.For(ctx, writes) {
		return ctx.Err()
	}
	if w.HasEnded() {
		return fmt.Errorf("the writer ended by itself: %w", w.Err)
	}
	if err := d.cutUnder(ctx, random, w.PID(), w.Kill); err != nil {
		return err
	}
	kept, err := intact(file)
	if err != nil {
		return fmt.Errorf("read the file after the cut: %w", err)
	}
	acked := len(w.Lines())
	c.Acked += acked
	if kept < acked {
		if c.Lost == 0 {
			c.Example = fmt.Sprintf("of %d records acked within %s, %d are left", acked, writes.Round(time.Millisecond), kept)
		}
		c.Lost += acked - kept
	}
	return nil
}

// cutUnder cuts the power under a process, which is killed, and mounts the disk
// again. Every other time some unsynced data get to the disk before.
// No other process may have files there.
func (d *disk) cutUnder(ctx context.Context, random *rand.Rand, pid int, kill func() error) error {
	if err := freeze(ctx, []int{pid}); err != nil {
		return err
	}
	users, err := holders(d.dir)
	if err != nil {
		return err
	}
	for _, user := range users {
		if user != pid {
			return fmt.Errorf("process %d has files on the disk, and is not of this test", user)
		}
	}
	if random.IntN(2) == 0 {
		if err := d.leak(random); err != nil {
			return err
		}
	}
	if err := d.cut(); err != nil {
		return err
	}
	if err := kill(); err != nil {
		return err
	}
	return d.restore(ctx)
}

type span struct{ least, most time.Duration }

func (s span) any(r *rand.Rand) time.Duration {
	return s.least + time.Duration(r.Int64N(int64(s.most-s.least)+1))
}

// Write writes the report for people.
func (c ControlReport) Write(out io.Writer) {
	fmt.Fprintf(out, "control, %d cuts each: with sync %d of %d acked records lost, without %d of %d\n",
		c.Cuts, c.Synced.Lost, c.Synced.Acked, c.Unsynced.Lost, c.Unsynced.Acked)
	if err := c.Void(); err != nil {
		fmt.Fprintln(out, "all runs are void:", err)
	}
}
