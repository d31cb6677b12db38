package inflight

import (
	"context"
	"sync"
)

// A Context is the context of a message in flight. It ends with that of the
// subscription, or when the message is acked or nacked. A context of the
// standard library does the same, for 2 µs a message (measured 2026-11); few
// handlers ask.
type Context struct {
	context.Context // of the subscription

	mu     sync.Mutex
	real   context.Context // made for the first who asks
	cancel context.CancelFunc
	over   bool
	left   chan struct{} // closed when the message leaves its place in the line
	once   sync.Once
}

// NewContext returns the context of a message, below that of its subscription.
func NewContext(ctx context.Context) *Context {
	return &Context{Context: ctx, left: make(chan struct{})}
}

// Leave lets the next message of the key follow, see [envelope.LeavePlace].
func (c *Context) Leave() { c.once.Do(func() { close(c.left) }) }

// Left is closed when the message has left its place in the line.
func (c *Context) Left() <-chan struct{} { return c.left }

// End ends the context.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
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
	case c.over:
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
		if c.over {
			c.cancel()
		}
	}
	return c.real
}
