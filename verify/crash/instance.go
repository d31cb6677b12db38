package crash

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// An instance is one of the services that share the database and the broker. It
// has one process after the other.
type instance struct {
	service
	number int
	file   io.Closer // the log
	life   *life     // the newest; nil before the first

	upFrom time.Time // when the last fault that the process survived was over
}

// isUp reports whether the instance has a process that takes commands.
func (in *instance) isUp() bool { return in.isAlive() && in.life.IsReady() }

// isAlive reports whether the instance has a process.
func (in *instance) isAlive() bool { return in.life != nil && !in.life.HasEnded() }

// begin starts a process of an instance.
func (r *run) begin(ctx context.Context, in *instance) error {
	l, err := in.start(ctx)
	if err != nil {
		return err
	}
	r.lives++
	l.number, l.of = r.lives, in
	in.life = l
	go func() {
		<-l.Ended
		select {
		case r.ends <- l:
		case <-ctx.Done():
		}
	}()
	return nil
}

// beginLater starts a process of an instance after a pause, during which
// the run has to [run.attend]. A single instance begins at once.
func (r *run) beginLater(ctx context.Context, in *instance) error {
	if len(r.instances) == 1 {
		return r.begin(ctx, in)
	}
	d := instanceOff.any(r.rand)
	go func() {
		pause.For(ctx, d)
		select {
		case r.due <- in:
		case <-ctx.Done():
		}
	}()
	return nil
}

// attend waits until a channel is closed, or the time is over, which it reports,
// or something happened to an instance: it starts those whose pause is over, and
// those that ended by themselves.
func (r *run) attend(ctx context.Context, done <-chan struct{}, late <-chan time.Time) (over bool, err error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-late:
		return true, nil
	case <-done:
		return false, nil
	case in := <-r.due:
		return false, r.begin(ctx, in)
	case l := <-r.ends:
		return false, r.died(ctx, l)
	}
}

// rest lets the service run for a while.
func (r *run) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		if over, err := r.attend(ctx, nil, t.C); over || err != nil {
			return err
		}
	}
}

// awaitReady waits until an instance says that it is ready.
func (r *run) awaitReady(ctx context.Context, in *instance) error {
	t := time.NewTimer(readyTimeout)
	defer t.Stop()
	for !in.isUp() {
		var ready <-chan struct{}
		if in.isAlive() {
			ready = in.life.Ready
		}
		over, err := r.attend(ctx, ready, t.C)
		if err != nil {
			return err
		}
		if over {
			return fmt.Errorf("the service is not ready after %s; see its log", readyTimeout)
		}
	}
	return nil
}

// awaitAll waits until all instances are ready.
func (r *run) awaitAll(ctx context.Context) error {
	for _, in := range r.instances {
		if err := r.awaitReady(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// died notes that a process ended by itself, unless the run ended it, and
// starts its instance again.
func (r *run) died(ctx context.Context, l *life) error {
	if l.meant {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.outdated(l) {
		r.refusals++
		r.over(l.of, r.now())
		l.of.bin = r.opt.Bin
		return r.begin(ctx, l.of)
	}
	r.breach(history.Died, "life %d ended by itself: %v", l.number, l.Err)
	r.deaths++
	if r.deaths > maxDeaths {
		return fmt.Errorf("the service ended by itself %d times: %w; see its log", r.deaths, l.Err)
	}
	r.over(l.of, r.now())
	return r.begin(ctx, l.of)
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
	r.over(in, r.now())
	in.life.meant = true
	if err := in.life.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	t := time.NewTimer(endTimeout)
	defer t.Stop()
	for !in.life.HasEnded() {
		over, err := r.attend(ctx, in.life.Ended, t.C)
		if err != nil {
			return err
		}
		if over {
			r.breach(history.Unclean, "life %d had not ended %s after SIGTERM", in.life.number, endTimeout)
			return in.life.Kill()
		}
	}
	if in.life.Err != nil {
		r.breach(history.Unclean, "life %d ended after SIGTERM with: %v", in.life.number, in.life.Err)
	}
	return nil
}

// kill kills an instance, which must not have ended by itself before.
func (r *run) kill(in *instance) error {
	r.over(in, r.now())
	in.life.meant = true
	if err := in.life.Kill(); err != nil {
		return err
	}
	if !in.life.Killed() && !r.outdated(in.life) {
		r.breach(history.Died, "life %d ended by itself, just before it was to be killed: %v", in.life.number, in.life.Err)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
