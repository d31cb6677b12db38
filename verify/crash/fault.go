package crash

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// injectAll injects the faults of the run. The service is up, or starting, when it
// returns.
func (r *run) injectAll(ctx context.Context) error {
	for r.faults < r.opt.Kills && !r.lost {
		in, err := r.work(ctx)
		if err != nil {
			return err
		}
		if err := r.inject(ctx, in); err != nil {
			return err
		}
		r.faults++
		if r.faults%100 == 0 {
			sent, seen := r.recorder.Count()
			fmt.Fprintf(r.opt.Progress, "%d of %d kills, %d messages sent, %d seen\n", r.faults, r.opt.Kills, sent, seen)
		}
	}
	return nil
}

// work lets the service run for a while, and returns the instance that is
// hit next. If the mode kills a single instance, the time counts from the
// start of the process in every other life, so that starts are hit as well as
// work; in all other cases it counts from when it was ready.
func (r *run) work(ctx context.Context) (*instance, error) {
	d := workTime
	switch {
	case r.opt.Mode.hitsServers(), r.opt.Mode == EmptyBroker:
		d = breather
	case len(r.instances) > 1, r.opt.Mode.losesDatabase(), r.opt.Mode.cutsPower():
		d = workOfMany
	}
	if r.opt.Mode.losesDatabase() {
		if err := r.awaitEvents(ctx); err != nil {
			return nil, err
		}
	}
	atStart := r.opt.Mode.hitsStarts() && r.rand.IntN(2) == 0
	if len(r.instances) == 1 {
		in := r.instances[0]
		if !atStart {
			if err := r.awaitReady(ctx, in); err != nil {
				return nil, err
			}
			if r.opt.Mode.embeds() {
				if err := r.awaitTraffic(ctx); err != nil {
					return nil, err
				}
			}
		}
		return in, r.rest(ctx, d.any(r.rand))
	}
	if err := r.rest(ctx, d.any(r.rand)); err != nil {
		return nil, err
	}
	return r.choose(ctx, atStart)
}

// awaitTraffic waits until some commands were sent. With the broker inside the
// service the producer has to connect again in each life.
func (r *run) awaitTraffic(ctx context.Context) error {
	const some = 20
	before, _ := r.recorder.Count()
	return r.await(ctx, readyTimeout, "commands are sent", func() bool {
		sent, _ := r.recorder.Count()
		return sent >= before+some
	})
}

// choose returns any of the instances that are up, or that have a process at
// least, and waits until there is one.
func (r *run) choose(ctx context.Context, starting bool) (*instance, error) {
	var some []*instance
	if err := r.await(ctx, readyTimeout, "an instance is ready", func() bool {
		for _, in := range r.instances {
			if in.isUp() || starting && in.isAlive() {
				some = append(some, in)
			}
		}
		return len(some) > 0
	}); err != nil {
		return nil, err
	}
	return some[r.rand.IntN(len(some))], nil
}

// inject injects the fault of the mode. The instance is starting or up afterwards, or
// is going to be.
func (r *run) inject(ctx context.Context, in *instance) error {
	if r.cluster != nil && r.opt.Mode.hitsServers() && r.opt.Mode != StoreGone {
		return r.without(ctx, r.hitServer)
	}
	switch r.opt.Mode {
	case Kill, Embedded:
		if err := r.kill(in); err != nil {
			return err
		}
		return r.beginLater(ctx, in)
	case Power, PowerEmbedded:
		return r.cutPower(ctx, in)
	case Upgrade:
		return r.killAndUpgrade(ctx, in)
	case Term:
		if err := r.end(ctx, in); err != nil {
			return err
		}
		return r.beginLater(ctx, in)
	case Stop:
		return r.freeze(ctx, in)
	case Broker:
		return r.without(ctx, r.restartBroker)
	case Outside:
		return r.without(ctx, func(ctx context.Context) error { return r.opt.Harm(ctx, Hands{r}) })
	case StoreGone:
		return r.without(ctx, func(ctx context.Context) error { return r.database.interrupt(ctx, r) })
	case Both:
		return r.killBoth(ctx, in)
	case Failover:
		r.mayEnd = true
		return r.without(ctx, r.replicated.failOver)
	case FailoverLag:
		return r.quietly(ctx, lastAhead, r.failOverLagging)
	case Wipe, Rollback:
		if r.opt.Quiet {
			return r.quietly(ctx, quietAhead, r.loseQuietly)
		}
		return r.loseDatabase(ctx)
	case EmptyBroker:
		return r.emptyBroker(ctx)
	}
	return fmt.Errorf("mode %q is none of %q", r.opt.Mode, Modes)
}

// freeze stops an instance for a while and continues it.
func (r *run) freeze(ctx context.Context, in *instance) error {
	d := stopTime
	if len(r.instances) > 1 {
		d = stopOfMany
	}
	r.wasUp(in, time.Now())
	if err := in.life.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := r.rest(ctx, d.any(r.rand)); err != nil {
		return err
	}
	in.upFrom = time.Now()
	return in.life.Signal(syscall.SIGCONT)
}

// without interrupts a server that all instances need.
func (r *run) without(ctx context.Context, interrupt func(context.Context) error) error {
	began := time.Now()
	for _, in := range r.instances {
		if in.isUp() && !in.life.noted {
			r.wasUp(in, began)
		}
	}
	if err := interrupt(ctx); err != nil {
		return err
	}
	for _, in := range r.instances {
		in.upFrom = time.Now()
	}
	return nil
}

// restartBroker kills the broker and starts it again, where it was.
func (r *run) restartBroker(ctx context.Context) error {
	if err := r.broker.Kill(); err != nil {
		return err
	}
	if err := r.rest(ctx, brokerOff.any(r.rand)); err != nil {
		return err
	}
	return r.beginBroker(ctx)
}

// killBoth kills broker and service, one soon after the other, and starts them
// again, one soon after the other.
func (r *run) killBoth(ctx context.Context, in *instance) error {
	r.over(in, time.Now())
	return r.without(ctx, func(ctx context.Context) error {
		if err := r.inAnyOrder(ctx, r.broker.Kill, func() error { return r.kill(in) }); err != nil {
			return err
		}
		if err := r.rest(ctx, between.any(r.rand)); err != nil {
			return err
		}
		return r.inAnyOrder(ctx,
			func() error { return r.beginBroker(ctx) },
			func() error { return r.begin(ctx, in) })
	})
}

// inAnyOrder does two things, either of them first, with a pause between them.
func (r *run) inAnyOrder(ctx context.Context, one, other func() error) error {
	if r.rand.IntN(2) == 0 {
		one, other = other, one
	}
	if err := one(); err != nil {
		return err
	}
	if err := r.rest(ctx, between.any(r.rand)); err != nil {
		return err
	}
	return other()
}

// beginBroker starts the broker where it was.
func (r *run) beginBroker(ctx context.Context) (err error) {
	if r.opt.URL != "" {
		r.broker, err = UseKafka(ctx, r.opt.URL)
		return err
	}
	if r.opt.Servers > 1 {
		return r.beginCluster(ctx)
	}
	r.broker, err = StartServer(ctx, r.opt.Broker, r.dir, r.port)
	return err
}
