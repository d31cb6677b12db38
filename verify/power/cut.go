//go:build linux

package power

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

var (
	// errDied says that the service ended by itself, which is in the breaches.
	errDied = errors.New("the service ended by itself; see its log")

	// Within the first start, when nothing is promised yet: half of what a start
	// makes must not be in the way of the next one.
	firstTime = span{0, 300 * time.Millisecond}
)

// begin starts the service.
func (r *run) begin(ctx context.Context) (err error) {
	r.begun = r.now()
	r.life, err = crash.Start(ctx, r.opt.Bin, r.dir, r.env, r.log, r.log, r.now)
	if err == nil {
		r.lives++
	}
	return err
}

// firstCut cuts the power while the service starts for the first time, unless
// there is to be one cut only.
func (r *run) firstCut(ctx context.Context) error {
	if r.opt.Cuts == 1 {
		return nil
	}
	if err := r.wait(ctx, firstTime.any(r.rand)); err != nil {
		return err
	}
	return r.cut(ctx)
}

// cutAll cuts the power as often as is asked for. The service is up when it
// returns. Every other life is counted from its start, so that starts are hit as
// well as work; the others from when it was ready.
func (r *run) cutAll(ctx context.Context) error {
	for r.cuts < r.opt.Cuts {
		if r.rand.IntN(2) == 0 {
			if err := r.awaitReady(ctx); err != nil {
				return err
			}
		}
		if err := r.wait(ctx, workTime.any(r.rand)); err != nil {
			return err
		}
		if err := r.cut(ctx); err != nil {
			return err
		}
		if r.cuts%10 == 0 {
			sent, seen := r.recorder.Count()
			fmt.Fprintf(r.opt.Progress, "%d of %d cuts, %d messages sent, %d seen\n", r.cuts, r.opt.Cuts, sent, seen)
		}
	}
	return r.awaitReady(ctx)
}

// cut cuts the power under the service and starts it again.
func (r *run) cut(ctx context.Context) error {
	r.over()
	began := r.now()
	if err := cutUnder(ctx, r.disk, r.rand, r.life.PID(), r.life.Kill); err != nil {
		return fmt.Errorf("cut %d: %w", r.cuts+1, err)
	}
	r.cuts++
	r.cutTook = max(r.cutTook, r.now().Sub(began))
	return r.begin(ctx)
}

// over notes that the service was up until now, if it was, and how long that took.
func (r *run) over() {
	if r.life.IsReady() {
		r.recorder.Up(r.life.ReadyAt, r.now())
		r.starts = append(r.starts, r.life.ReadyAt.Sub(r.begun))
	}
}

// wait lets the service run for a while.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.life.Ended:
		return r.died()
	case <-t.C:
		return nil
	}
}

// awaitReady waits until the service says that it is ready.
func (r *run) awaitReady(ctx context.Context) error {
	t := time.NewTimer(readyTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.life.Ended:
		return r.died()
	case <-t.C:
		return fmt.Errorf("after %d cuts the service is not ready within %s; see its log", r.cuts, readyTimeout)
	case <-r.life.Ready:
		return nil
	}
}

// died notes that the service ended by itself. What is left of the disk is for
// people to examine, so the run ends too.
func (r *run) died() error {
	r.breach(history.Died, "life %d, after %d cuts, ended by itself: %v", r.lives, r.cuts, r.life.Err)
	return errDied
}
