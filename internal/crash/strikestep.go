package crash

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// strikeSteps kills the service at each step, so many times. If there are any,
// no process is left when it returns.
func (r *run) strikeSteps(ctx context.Context, some []step) error {
	for _, s := range some {
		began, struck := r.now(), r.struck
		for strike := range r.opt.Kills {
			reached, err := r.strikeStep(ctx, s, r.passage(s, strike, r.opt.Kills))
			if err != nil {
				return err
			}
			if !reached {
				break // nor will it be the next time
			}
			r.struck++
		}
		report := StepReport{Step: s.name, Died: s.died, Kills: r.struck - struck, Seconds: r.now().Sub(began).Seconds()}
		r.steps = append(r.steps, report)
		fmt.Fprintf(r.opt.Progress, "%s: %d kills in %.1f s\n", s.name, report.Kills, report.Seconds)
	}
	return nil
}

// strikeAll is strikeSteps, and leaves the service to itself afterwards.
func (r *run) strikeAll(ctx context.Context, some []step) error {
	if err := r.strikeSteps(ctx, some); err != nil {
		return err
	}
	if !r.life.hasEnded() {
		return nil
	}
	return r.begin(ctx)
}

// strikeStep starts a process that dies at a passage of a step, and waits for
// that. It reports whether it was so.
func (r *run) strikeStep(ctx context.Context, s step, passage int) (reached bool, err error) {
	if err := r.clear(); err != nil {
		return false, err
	}
	if s.away > 0 && !pause.For(ctx, s.away) {
		return false, ctx.Err()
	}
	r.service.step = fmt.Sprintf("%s:%d", s.name, passage)
	err = r.begin(ctx)
	r.service.step = ""
	if err != nil {
		return false, err
	}
	armed := r.life
	t := time.NewTimer(r.opt.stepPatience)
	defer t.Stop()
	if s.stage == ending {
		if err := r.tell(ctx, syscall.SIGTERM); err != nil {
			return false, err
		}
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-armed.ended:
	case <-t.C:
		r.breach(history.Unreached, "%s, passage %d: not within %s", s.name, passage, r.opt.stepPatience)
		return false, r.clear()
	}
	r.over(r.now())
	switch {
	case armed.killed() && armed.hasFallen():
		return true, nil
	case armed.err == nil && s.stage == ending:
		r.breach(history.Unreached, "%s, passage %d: the service stopped cleanly", s.name, passage)
	default:
		r.breach(history.Died, "life %d ended by itself, not at the step %s: %v; see its log", r.lives, s.name, armed.err)
	}
	return false, nil
}

// tell lets the service work for a while and sends it a signal.
func (r *run) tell(ctx context.Context, sig syscall.Signal) error {
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	if !pause.For(ctx, workTime.any(r.rand)) {
		return ctx.Err()
	}
	r.over(r.now())
	return r.life.signal(sig)
}

// clear kills the process, if there is one.
func (r *run) clear() error {
	if r.life == nil || r.life.hasEnded() {
		return nil
	}
	return r.killService()
}
