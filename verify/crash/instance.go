package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// An instance is one of the services that share the database and the broker. It
// has one process after the other.
type instance struct {
	number  int
	bin     string
	dir     string   // its working directory
	env     []string // names the broker and the database
	log     *os.File
	life    *life     // the newest; nil before the first
	beginAt time.Time // when the next one is to begin; zero if it is not
	upFrom  time.Time // when the last fault that the process survived was over
	away    bool      // it is dead for longer: nothing waits for it
}

// A life is one process of the service, from start to end.
type life struct {
	*Process

	number int  // of all processes of the run, from 1
	noted  bool // whether it is recorded when the process was up
	meant  bool // whether the run ends it, and checks how it ended
}

// The environment variable that names the step at which a process dies, and the text that it
// prints then.
const (
	stepEnv  = "FAILPOINT"
	stepLine = "failpoint "
)

// isUp reports whether the instance has a process that takes commands.
func (in *instance) isUp() bool { return in.isAlive() && in.life.IsReady() }

// isAlive reports whether the instance has a process.
func (in *instance) isAlive() bool { return in.life != nil && !in.life.HasEnded() }

// backup has the binary copy the database into a file.
func (in *instance) backup(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, in.bin, "backup", file)
	cmd.Dir = in.dir
	cmd.Env = append(Environ(), in.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("timer-service backup: %w\n%s", err, out)
	}
	return nil
}

// begin starts a process of an instance, with settings of its own.
func (r *run) begin(ctx context.Context, in *instance, settings ...string) error {
	settings = append(append([]string{"TIMER_UNKNOWN_TYPES=ignore"}, in.env...), settings...)
	p, err := Start(ctx, in.bin, in.dir, settings, in.log)
	if err != nil {
		return err
	}
	r.lives++
	in.life, in.beginAt = &life{Process: p, number: r.lives}, time.Time{}
	return nil
}

// beginLater starts a process of an instance after a pause. A single instance begins at once.
func (r *run) beginLater(ctx context.Context, in *instance) error {
	if len(r.instances) == 1 {
		return r.begin(ctx, in)
	}
	in.beginAt = time.Now().Add(instanceOff.any(r.rand))
	return nil
}

// tend starts the instances whose pause is over, and instances that ended by themselves.
func (r *run) tend(ctx context.Context) error {
	for _, in := range r.instances {
		var err error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !in.beginAt.IsZero():
			if time.Now().After(in.beginAt) {
				err = r.begin(ctx, in)
			}
		case in.life != nil && in.life.HasEnded() && !in.life.meant:
			err = r.died(ctx, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// until tends the instances until something has happened, or the time is over. It reports
// whether it has happened.
func (r *run) until(ctx context.Context, limit time.Duration, happened func() bool) (bool, error) {
	for late := time.Now().Add(limit); ; {
		if err := r.tend(ctx); err != nil {
			return false, err
		}
		if happened() {
			return true, nil
		}
		left := time.Until(late)
		if left <= 0 {
			return false, nil
		}
		if !pause.For(ctx, min(left, pollTick)) {
			return false, ctx.Err()
		}
	}
}

// await is until, and returns an error unless it happens.
func (r *run) await(ctx context.Context, limit time.Duration, what string, happened func() bool) error {
	ok, err := r.until(ctx, limit, happened)
	if err == nil && !ok {
		err = fmt.Errorf("waited %s in vain until %s; see the logs", limit, what)
	}
	return err
}

// rest lets the service run for a while.
func (r *run) rest(ctx context.Context, d time.Duration) error {
	_, err := r.until(ctx, d, func() bool { return false })
	return err
}

// awaitReady waits until an instance says that it is ready.
func (r *run) awaitReady(ctx context.Context, in *instance) error {
	return r.await(ctx, readyTimeout, "the service is ready", in.isUp)
}

// awaitAll waits until all instances are ready.
func (r *run) awaitAll(ctx context.Context) error {
	for _, in := range r.instances {
		if in.away {
			continue
		}
		if err := r.awaitReady(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// otherHistory is the error of a process that ends since its database has failed over: its next
// start reads the messages that the server that took over may lack.
const otherHistory = "the database has another history than it had"

// died notes that a process ended by itself, and starts its instance again.
func (r *run) died(ctx context.Context, in *instance) error {
	r.over(in, time.Now())
	if r.outdated(in.life) {
		r.refusals++
		in.bin = r.opt.Bin
		return r.begin(ctx, in)
	}
	if _, said := in.life.Find(otherHistory, in.life.Started); said && r.mayEnd && in.life.cmd.ProcessState.ExitCode() == 1 {
		r.ended++
		return r.begin(ctx, in)
	}
	r.breach(history.Died, "life %d ended by itself: %v", in.life.number, in.life.Err)
	r.deaths++
	if r.deaths > maxDeaths {
		return fmt.Errorf("the service ended by itself %d times: %w; see its log", r.deaths, in.life.Err)
	}
	return r.begin(ctx, in)
}

// over notes that an instance was up until a time, if it was. Only the first
// call counts in a life.
func (r *run) over(in *instance, until time.Time) {
	if !in.life.IsReady() || in.life.noted {
		return
	}
	in.life.noted = true
	r.starts = append(r.starts, in.life.ReadyAt.Sub(in.life.Started))
	r.wasUp(in, until)
}

// wasUp notes that an instance was up until a time, since the last fault.
func (r *run) wasUp(in *instance, until time.Time) {
	r.recorder.Up(later(in.life.ReadyAt, in.upFrom), until)
}

// end asks an instance to stop, and waits until it has, which must be cleanly.
func (r *run) end(ctx context.Context, in *instance) error {
	r.over(in, time.Now())
	in.life.meant = true
	if err := in.life.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended, err := r.until(ctx, endTimeout, in.life.HasEnded)
	switch {
	case err != nil:
		return err
	case !ended:
		r.breach(history.Unclean, "life %d had not ended %s after SIGTERM", in.life.number, endTimeout)
		return in.life.Kill()
	case in.life.Err != nil:
		r.breach(history.Unclean, "life %d ended after SIGTERM with: %v", in.life.number, in.life.Err)
	}
	return nil
}

// kill kills an instance, which must not have ended by itself before.
func (r *run) kill(in *instance) error {
	r.over(in, time.Now())
	in.life.meant = true
	if err := in.life.Kill(); err != nil {
		return err
	}
	if !in.life.Killed() && !r.outdated(in.life) {
		r.breach(history.Died, "life %d ended by itself, just before it was to be killed: %v", in.life.number, in.life.Err)
	}
	return nil
}

// fellAt reports whether a process that has ended said that it dies at a step.
func (l *life) fellAt(step string) bool {
	for _, line := range l.Lines() {
		if strings.HasPrefix(line.Text, stepLine+step) {
			return true
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
