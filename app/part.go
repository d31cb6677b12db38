package app

import (
	"context"
	"errors"
	"fmt"
)

// A part is a Run at work, in a goroutine of its own. It is stopped by name
// and not by the end of a shared context, so that parts stop in order.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// start runs a part. If it ends by itself, died is told; it must have room for
// that.
func start(ctx context.Context, died chan<- struct{}, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
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

// stop ends the part, waits for it, and returns its error.
func (p *part) stop() error {
	p.cancel()
	<-p.done
	return p.err
}
