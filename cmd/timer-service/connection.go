package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
)

// connectTimeout is how long a verb waits for the broker.
const connectTimeout = 5 * time.Second

// A connection is one with the broker. Close it.
type connection struct {
	broker.Broker
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of the broker's Run; valid once ended is closed
}

// connect connects with the broker that the configuration names, and waits for it
// until ctx ends. The connection does not end with ctx, but with close: work that
// is half done when ctx ends can be finished.
func connect(ctx context.Context, e *env, verb string) (*connection, error) {
	b, address, err := service.Client(e.cfg, e.log)
	if errors.Is(err, service.ErrNoServer) {
		return nil, err
	}
	if err != nil {
		return nil, wrong(verb, "%w", err) // the network was not used yet
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c, hint := &connection{Broker: b, cancel: cancel, ended: make(chan struct{})}, "is the server up?"
	if e.cfg.Embedded() {
		hint = fmt.Sprintf("is %q running, with the same --db-path?", program+" serve")
	}
	waiting, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	go func() {
		defer close(c.ended)
		defer stop()
		c.err = b.Run(running)
	}()
	if err := broker.AwaitReady(waiting, b); err != nil {
		c.close()
		if ctx.Err() != nil {
			return nil, errors.New("interrupted, and nothing was published")
		}
		return nil, fmt.Errorf("no answer from the broker at %s; %s (%w)", address, hint, cmp.Or(c.err, err))
	}
	return c, nil
}

// close disconnects.
func (c *connection) close() {
	c.cancel()
	<-c.ended
}
