package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/crash/history"
)

// A Mode says what is done to the service while it works.
type Mode string

// Modes.
const (
	Kill   Mode = "kill"   // SIGKILL, and a new start at once
	Term   Mode = "term"   // SIGTERM, wait, and a new start; then no duplicate is allowed either
	Stop   Mode = "stop"   // SIGSTOP for one to three seconds, and SIGCONT
	Broker Mode = "broker" // SIGKILL for the broker, and a new start after up to a second
)

// Modes are all modes.
var Modes = []Mode{Kill, Term, Stop, Broker}

// How long things last between strikes, at least and at most.
var (
	workTime  = span{40 * time.Millisecond, 350 * time.Millisecond}
	stopTime  = span{time.Second, 3 * time.Second}
	brokerOff = span{0, time.Second}
	breather  = span{time.Second, 3 * time.Second} // between strikes at the broker: clients take a while to be back
)

const (
	readyPatience = 60 * time.Second // for a start
	endPatience   = 60 * time.Second // for a stop
	maxDeaths     = 5                // of the service by itself, before the run ends
)

type span struct{ least, most time.Duration }

func (s span) any(r *rand.Rand) time.Duration {
	return s.least + time.Duration(r.Int64N(int64(s.most-s.least)+1))
}

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

// work lets the service live for a while. When it is to be killed, the time
// counts from the start of the process in every other life, so that starts are
// hit as well as work; in all other cases it counts from when it was ready.
func (r *run) work(ctx context.Context) error {
	atStart := r.opt.Mode == Kill && r.rand.IntN(2) == 0
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

// over notes that the service was up until a time, if it was.
func (r *run) over(until time.Time) {
	if !r.life.isReady() {
		return
	}
	r.starts = append(r.starts, r.life.readyAt.Sub(r.life.started))
	r.recorder.Up(later(r.life.readyAt, r.upFrom), until)
}

// strike does what the mode says. The service is starting or up afterwards.
func (r *run) strike(ctx context.Context) error {
	switch r.opt.Mode {
	case Kill:
		r.over(r.now())
		if err := r.life.kill(); err != nil {
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

// freeze stops the service for a while and lets it go on.
func (r *run) freeze(ctx context.Context) error {
	r.recorder.Up(later(r.life.readyAt, r.upFrom), r.now())
	if err := r.life.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !sleep(ctx, stopTime.any(r.rand)) {
		return ctx.Err()
	}
	r.upFrom = r.now()
	return r.life.signal(syscall.SIGCONT)
}

// strikeBroker kills the broker and starts it again, where it was.
func (r *run) strikeBroker(ctx context.Context) error {
	r.recorder.Up(later(r.life.readyAt, r.upFrom), r.now())
	port, err := r.broker.port()
	if err != nil {
		return err
	}
	if err := r.broker.kill(); err != nil {
		return err
	}
	if !sleep(ctx, brokerOff.any(r.rand)) {
		return ctx.Err()
	}
	b, err := startBroker(ctx, r.dir, port)
	if err != nil {
		return err
	}
	r.broker = b
	r.upFrom = r.now()
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
