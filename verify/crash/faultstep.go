package crash

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// killAtSteps kills the service at each step, as often as times returns. If there are any,
// no process is left when it returns.
func (r *run) killAtSteps(ctx context.Context, some []step) error {
	for _, s := range some {
		began, before := time.Now(), r.faults
		times := r.times(s)
		for n := range times {
			reached, err := r.killAtStep(ctx, s, r.passage(s, n, times))
			if err != nil {
				return err
			}
			if !reached {
				break // nor will it be the next time
			}
			r.faults++
		}
		report := StepReport{Step: s.name, Died: s.died, Kills: r.faults - before, Seconds: time.Since(began).Seconds()}
		r.steps = append(r.steps, report)
		fmt.Fprintf(r.opt.Progress, "%s: %d kills in %.1f s\n", s.name, report.Kills, report.Seconds)
	}
	return nil
}

// killAtStepsAndStart is killAtSteps, and leaves the service to itself afterwards.
func (r *run) killAtStepsAndStart(ctx context.Context, some []step) error {
	if err := r.killAtSteps(ctx, some); err != nil {
		return err
	}
	if r.instances[0].isAlive() {
		return nil
	}
	return r.begin(ctx, r.instances[0])
}

// killAtStep starts a process that dies at a passage of a step, and waits for
// that. It reports whether it was so.
func (r *run) killAtStep(ctx context.Context, s step, passage int) (reached bool, err error) {
	in := r.instances[0]
	if err := r.clear(in); err != nil {
		return false, err
	}
	if s.away > 0 && !pause.For(ctx, s.away) {
		return false, ctx.Err()
	}
	if err := r.begin(ctx, in, fmt.Sprintf("%s=%s:%d", stepEnv, s.name, passage)); err != nil {
		return false, err
	}
	armed := in.life
	armed.meant = true
	if s.stage == ending {
		if err := r.signalLater(ctx, in, syscall.SIGTERM); err != nil {
			return false, err
		}
	}
	switch ended, err := r.until(ctx, r.opt.stepTimeout, armed.HasEnded); {
	case err != nil:
		return false, err
	case !ended:
		r.breach(history.Unreached, "%s, passage %d: not within %s", s.name, passage, r.opt.stepTimeout)
		return false, r.clear(in)
	}
	r.over(in, time.Now())
	switch {
	case armed.Killed() && armed.fellAt(s.name):
		return true, nil
	case armed.Err == nil && s.stage == ending:
		r.breach(history.Unreached, "%s, passage %d: the service stopped cleanly", s.name, passage)
	default:
		r.breach(history.Died, "life %d ended by itself, not at the step %s: %v; see its log", armed.number, s.name, armed.Err)
	}
	return false, nil
}

// signalLater lets an instance run for a while and sends it a signal.
func (r *run) signalLater(ctx context.Context, in *instance, sig syscall.Signal) error {
	if err := r.awaitReady(ctx, in); err != nil {
		return err
	}
	if err := r.rest(ctx, workTime.any(r.rand)); err != nil {
		return err
	}
	r.over(in, time.Now())
	return in.life.Signal(sig)
}

// clear kills the process of an instance, if there is one.
func (r *run) clear(in *instance) error {
	if !in.isAlive() {
		return nil
	}
	return r.kill(in)
}
