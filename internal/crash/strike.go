package crash

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// strikes strikes so many times. The service is up when it returns.
func (r *run) strikes(ctx context.Context) error {
	for r.struck < r.opt.Kills {
		if err := r.work(ctx); err != nil {
			return err
		}
		if err := r.strike(ctx); err != nil {
			return err
		}
		r.struck++
		if r.struck%100 == 0 {
			sent, seen := r.recorder.Count()
			fmt.Fprintf(r.opt.Progress, "%d of %d kills, %d messages sent, %d seen\n", r.struck, r.opt.Kills, sent, seen)
		}
	}
	return nil
}

// work lets the service live for a while. When it is to be killed the time
// counts from the start of the process in every other life, so that starts are
// hit as well as work; in all other cases it counts from when it was ready.
func (r *run) work(ctx context.Context) error {
	atStart := r.opt.Mode.hitsStarts() && r.rand.IntN(2) == 0
	if !atStart {
		if err := r.awaitReady(ctx); err != nil {
			return err
		}
	}
	d := workTime.any(r.rand)
	if r.opt.Mode == Broker {
		d = breather.any(r.rand)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		case <-r.life.ended:
			if err := r.died(ctx); err != nil {
				return err
			}
		}
	}
}

// awaitReady waits until the service says that it is ready.
func (r *run) awaitReady(ctx context.Context) error {
	t := time.NewTimer(readyPatience)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return fmt.Errorf("the service is not ready after %s; see its log", readyPatience)
		case <-r.life.ready:
			return nil
		case <-r.life.ended:
			if err := r.died(ctx); err != nil {
				return err
			}
		}
	}
}

// died notes that the service ended by itself, and starts it again.
func (r *run) died(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.breach(history.Died, "life %d ended by itself: %v", r.lives, r.life.err)
	r.deaths++
	if r.deaths > maxDeaths {
		return fmt.Errorf("the service ended by itself %d times: %w; see its log", r.deaths, r.life.err)
	}
	r.over(r.now())
	return r.begin(ctx)
}

// begin starts the service.
func (r *run) begin(ctx context.Context) error {
	l, err := r.service.start(ctx)
	if err != nil {
		return err
	}
	r.life = l
	r.lives++
	return nil
}

// over notes that the service was up until a time, if it was. Only the first
// call counts in a life.
func (r *run) over(until time.Time) {
	if !r.life.isReady() || r.life.noted {
		return
	}
	r.life.noted = true
	r.starts = append(r.starts, r.life.readyAt.Sub(r.life.started))
	r.recorder.Up(later(r.life.readyAt, r.upFrom), until)
}

// strike does what the mode says. The service is starting or up afterwards.
func (r *run) strike(ctx context.Context) error {
	switch r.opt.Mode {
	case Kill, Embedded:
		if err := r.killService(); err != nil {
			return err
		}
		return r.begin(ctx)
	case Term:
		if err := r.end(ctx); err != nil {
			return err
		}
		return r.begin(ctx)
	case Stop:
		return r.freeze(ctx)
	case Broker:
		return r.strikeBroker(ctx)
	case Both:
		return r.strikeBoth(ctx)
	}
	return fmt.Errorf("mode %q is none of %q", r.opt.Mode, Modes)
}

// end tells the service to stop, and waits until it has, which must be cleanly.
func (r *run) end(ctx context.Context) error {
	r.over(r.now())
	if err := r.life.signal(syscall.SIGTERM); err != nil {
		return err
	}
	t := time.NewTimer(endPatience)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		r.breach(history.Unclean, "life %d had not ended %s after SIGTERM", r.lives, endPatience)
		return r.life.kill()
	case <-r.life.ended:
		if r.life.err != nil {
			r.breach(history.Unclean, "life %d ended after SIGTERM with: %v", r.lives, r.life.err)
		}
		return nil
	}
}

// killService kills the service, which must not have ended by itself before.
func (r *run) killService() error {
	r.over(r.now())
	if err := r.life.kill(); err != nil {
		return err
	}
	if !r.life.killed() {
		r.breach(history.Died, "life %d ended by itself, just before it was to be killed: %v", r.lives, r.life.err)
	}
	return nil
}

// freeze stops the service for a while and lets it go on.
func (r *run) freeze(ctx context.Context) error {
	r.recorder.Up(later(r.life.readyAt, r.upFrom), r.now())
	if err := r.life.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !pause.For(ctx, stopTime.any(r.rand)) {
		return ctx.Err()
	}
	r.upFrom = r.now()
	return r.life.signal(syscall.SIGCONT)
}

// strikeBroker kills the broker and starts it again, where it was.
func (r *run) strikeBroker(ctx context.Context) error {
	r.recorder.Up(later(r.life.readyAt, r.upFrom), r.now())
	if err := r.broker.kill(); err != nil {
		return err
	}
	if !pause.For(ctx, brokerOff.any(r.rand)) {
		return ctx.Err()
	}
	if err := r.beginBroker(ctx); err != nil {
		return err
	}
	r.upFrom = r.now()
	return nil
}

// strikeBoth kills broker and service, one soon after the other, and starts them
// again, one soon after the other.
func (r *run) strikeBoth(ctx context.Context) error {
	r.over(r.now())
	if err := r.inAnyOrder(ctx, r.broker.kill, r.killService); err != nil {
		return err
	}
	if !pause.For(ctx, between.any(r.rand)) {
		return ctx.Err()
	}
	return r.inAnyOrder(ctx,
		func() error { return r.beginBroker(ctx) },
		func() error { return r.begin(ctx) })
}

// inAnyOrder does two things, either of them first, with a pause between them.
func (r *run) inAnyOrder(ctx context.Context, one, other func() error) error {
	if r.rand.IntN(2) == 0 {
		one, other = other, one
	}
	if err := one(); err != nil {
		return err
	}
	if !pause.For(ctx, between.any(r.rand)) {
		return ctx.Err()
	}
	return other()
}

// beginBroker starts the broker where it was.
func (r *run) beginBroker(ctx context.Context) (err error) {
	r.broker, err = kinds[r.opt.Broker].start(ctx, r.dir, r.port)
	return err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
