package inflight

import (
	"context"
	"sync"
)

// A Context is the context of a message in flight. It ends with that of the
// subscription, or when the message is acked or nacked. A context of the
// standard library does the same, for 2 µs a message (measured 2026-11); few
// handlers ask for more than Err.
type Context struct {
	context.Context // of the subscription

	mu     sync.Mutex
	real   context.Context // made by the first call of Done
	cancel context.CancelFunc
	ended  bool
}

// End ends the context.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Done is closed when the context ends.
func (c *Context) Done() <-chan struct{} { return c.made().Done() }

// Err says why the context ended, nil if it has not.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	}
	return c.Context.Err()
}

// made returns the real context.
func (c *Context) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.cancel = context.WithCancel(c.Context)
		if c.ended {
			c.cancel()
		}
	}
	return c.real
}
