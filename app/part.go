package app

import (
	"context"
	"errors"
	"fmt"
)

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
		return p.err
	case <-ctx.Done():
	}
	select {
	case <-p.done:
		return p.err
	default:
		return fmt.Errorf("%s did not end in time", p.name)
	}
}
