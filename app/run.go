package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

const (
	brokerStart       = time.Second // how long a start waits for a broker
	brokerStopTimeout = time.Second // how long a stop waits for a broker to disconnect
)

// Run runs all parts until ctx is done, then stops them in the order of the
// flow: the intake first, then the poller, then the forwarder when the outbox is empty or
// DrainTimeout has passed. It returns within [Options.StopTimeout] after the end of ctx,
// with an error if a part died or did not end in time. It returns an error at once if
// a handler of OnDue can't work, if another app runs on the database and that is a SQLite file,
// or if both run in this process and one of them has a handler of OnDue. With
// [Options].RunBroker it runs the broker, too; a broker that is away delays the start by a
// second. An App runs once.
func (a *App) Run(ctx context.Context) error {
	if a.started.Swap(true) {
		return errAgain
	}
	if err := errors.Join(a.mistakes...); err != nil {
		return err
	}
	if a.broker == (noBroker{}) && len(a.handling) == 0 {
		return errNowhere
	}
	died := make(chan struct{}, 9) // one for each part
	run := func() error {
		err := a.store.Prepare(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		leave, err := a.enter(ctx)
		if ctx.Err() != nil {
			leave()
			return nil
		}
		if err != nil {
			return err
		}
		unlock, err := a.store.Lock(ctx)
		if err != nil {
			leave()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("store: %w", err)
		}
		return errors.Join(a.runParts(ctx, died, leave), unlock())
	}
	if !a.opt.RunBroker {
		return run()
	}
	return a.withBroker(ctx, died, func() error {
		awaitReady(ctx, a.broker)
		return run()
	})
}

// withBroker calls run while it runs the broker.
func (a *App) withBroker(ctx context.Context, died chan<- struct{}, run func() error) error {
	b := start(ctx, died, "broker", a.broker.Run)
	err := run()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerStopTimeout)
	defer cancel()
	return errors.Join(err, b.stop(stopping))
}

// runParts runs all parts except the broker. It calls leave when they begin to stop.
//
// Nothing is taken, fires or is published before the database owns the commands, and is
// complete. Nothing is taken and nothing fires before this instance has a shard for its events,
// and with it shares the database: then no other instance recovers that. In addition the
// poller waits for the commands that the broker holds (see catchUp).
func (a *App) runParts(ctx context.Context, died chan struct{}, leave func()) error {
	owned, shared := a.owner.owned, a.forwarder.Ready()
	owner := start(ctx, died, "owner", a.owner.run)
	forwarder := start(ctx, died, "forwarder", after(a.forwarder.Run, owned))
	poller := start(ctx, died, "poller", after(a.fire, owned, shared))
	intake := start(ctx, died, "handlers", after(a.handlers.Run, owned, shared))
	retention := start(ctx, died, "retention", a.retention.Run)
	store := start(ctx, died, "store", a.store.Watch)
	numbers := start(ctx, died, "numbers", after(a.numbers.run, owned, shared))
	marks := start(ctx, died, "marks", after(a.marks.run, owned))

	clean, running := true, a.handlers.Running()
	select {
	case <-running:
	case <-a.owner.waiting:
	case <-ctx.Done():
	case <-died:
		clean = false
	}
	if clean && ctx.Err() == nil {
		close(a.running)
		select {
		case <-ctx.Done():
		case <-died:
			clean = false
		}
	}

	leave()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opt.DrainTimeout+partTimeout)
	defer cancel()
	draining, cancel := context.WithTimeout(stopping, a.opt.DrainTimeout)
	defer cancel()
	if len(a.handling) > 0 {
		forwarder.cancel() // handlers at work have DrainTimeout from now on, the rest is for the next start
	}
	var failed error
	for _, p := range []*part{intake, poller, retention, marks, store, owner} {
		failed = errors.Join(failed, p.stop(stopping))
	}
	if clean && a.owner.is() && len(a.handling) == 0 {
		a.drain(draining)
	}
	failed = errors.Join(failed, a.stopForwarder(stopping, forwarder))
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*lastWriteTimeout)
	defer cancel()
	return errors.Join(failed, numbers.stop(last)) // all is settled by now
}

// fire runs the poller, and with StartPaused pauses it before.
func (a *App) fire(ctx context.Context) error {
	if a.opt.StartPaused {
		if err := a.startPaused(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return a.poller.Run(ctx)
}

// awaitReady waits at most a second until the broker is ready. Parts that use a broker
// that is away wait for it by themselves.
func awaitReady(ctx context.Context, b broker.Broker) {
	ctx, cancel := context.WithTimeout(ctx, brokerStart)
	defer cancel()
	_ = broker.AwaitReady(ctx, b)
}

// after returns a Run that begins when all channels are closed.
func after(run func(context.Context) error, all ...<-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, closed := range all {
			select {
			case <-closed:
			case <-ctx.Done():
				return nil
			}
		}
		return run(ctx)
	}
}

// drain waits until the outbox is empty, or ctx is done.
func (a *App) drain(ctx context.Context) {
	failpoint.Here("draining")
	if err := a.forwarder.Drain(ctx); err != nil {
		a.log.WarnContext(ctx, "stopped with events in the outbox; the next start forwards them", "error", err)
	}
}

// stopForwarder stops the forwarder. The error names the handler that it waited for in vain.
func (a *App) stopForwarder(ctx context.Context, forwarder *part) error {
	err := forwarder.stop(ctx)
	if at := a.forwarder.Status().Longest; err != nil && at != "" && !closed(forwarder.done) {
		return fmt.Errorf("%w: %s", err, at)
	}
	return err
}

// A part is a Run in a goroutine of its own. It is stopped by name and not by
// the end of a shared context, so that parts stop in order.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// start runs a part. If it ends by itself a value is sent to died, which must
// have capacity for every part.
func start(ctx context.Context, died chan<- struct{}, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		err := run(ctx)
		switch {
		case err != nil:
			p.err = fmt.Errorf("%s: %w", name, err)
		case ctx.Err() == nil:
			p.err = errors.New(name + " ended by itself")
		default:
			return
		}
		died <- struct{}{}
	}()
	return p
}

// stop ends the part and waits for it, at most until ctx is done. It returns the
// error of the part, or one that says that it did not end in time.
func (p *part) stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		if !closed(p.done) {
			return fmt.Errorf("%s did not end in time", p.name)
		}
	}
	return p.err
}
