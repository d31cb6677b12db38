package rabbitmq

import (
	"context"
	"errors"
	"fmt"
)

// Run connects and keeps connected until ctx is done. It returns an error only
// if the options can't work, or if an exchange or a queue is there that does
// not fit.
func (b *Broker) Run(ctx context.Context) error {
	if !b.begun.CompareAndSwap(false, true) {
		return errors.New("the broker has been run already")
	}
	defer b.end()
	if err := b.opt.check(); err != nil {
		return err
	}
	var err error
	if b.servers, err = servers(b.opt.URL); err != nil {
		return err
	}

	ctx, unfit := context.WithCancelCause(ctx)
	defer unfit(nil)
	// The connections outlive what uses them, so that acks still go out.
	using, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 2)
	go func() {
		err := b.keep(using, b.main, b.settle)
		unfit(err)
		ended <- err
	}()
	go func() {
		ended <- b.keep(using, b.out, func(context.Context, *connection) error { return nil })
	}()
	<-ctx.Done()
	b.end()
	stop()
	err = errors.Join(<-ended, <-ended)
	b.asks.Wait()
	return err
}

// end ends everything that uses the connections, and waits for it.
func (b *Broker) end() {
	b.term.End()
}

// check returns what no server could mend.
func (opt Options) check() error {
	if err := opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	if opt.QueueType != Classic && opt.QueueType != Quorum {
		return fmt.Errorf("queue type %q: set %s or %s", opt.QueueType, Classic, Quorum)
	}
	for _, name := range []string{opt.Exchange, opt.Routing.Subscription()} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}
