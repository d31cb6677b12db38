package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// connectTimeout is how long a verb waits for the broker.
const connectTimeout = 5 * time.Second

// A client is a broker that is being run.
type client struct {
	broker.Broker
	hint   string // what may be wrong if it does not answer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of the broker's Run; valid once ended is closed
}

// connect connects with the broker that the configuration names. The caller
// closes the client.
func connect(ctx context.Context, e *env, verb string) (*client, error) {
	return connectFor(ctx, ctx, e, verb)
}

// connectLasting connects with a broker that outlives ctx, until it is closed.
func connectLasting(ctx context.Context, e *env, verb string) (*client, error) {
	return connectFor(ctx, context.WithoutCancel(ctx), e, verb)
}

// connectFor waits for the broker as long as ctx lets it, and keeps it until life
// ends or it is closed.
func connectFor(ctx, life context.Context, e *env, verb string) (*client, error) {
	b, address, err := service.Client(e.cfg, e.log)
	if errors.Is(err, service.ErrNoServer) {
		return nil, err
	}
	if err != nil {
		return nil, wrong(verb, "%w", err) // the network was not touched yet
	}
	running, cancel := context.WithCancel(life)
	c := &client{Broker: b, hint: "is the server up?", cancel: cancel, ended: make(chan struct{})}
	if e.cfg.Embedded() {
		c.hint = fmt.Sprintf("is %q running, with the same --db-path?", program+" serve")
	}
	go func() {
		defer close(c.ended)
		c.err = b.Run(running)
	}()
	if err := c.answers(ctx); err != nil {
		c.close()
		if ctx.Err() != nil {
			return nil, errors.New("interrupted, and nothing was published")
		}
		return nil, fmt.Errorf("no answer from the broker at %s; %s (%w)", address, c.hint, err)
	}
	return c, nil
}

// answers waits until the broker is ready, and returns what is wrong if it is
// not in time.
func (c *client) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		err := c.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return err
		case <-c.ended:
			if c.err != nil {
				return c.err
			}
			return err
		}
	}
}

// close disconnects.
func (c *client) close() {
	c.cancel()
	<-c.ended
}

// A command is a message on its way to the service.
type command struct {
	id, topic string
	body      []byte
	headers   map[string]string
}

// publish returns when the broker has made the command durable.
func (c *client) publish(cmd command) error {
	m := message.NewMessage(cmd.id, cmd.body)
	for name, value := range cmd.headers {
		m.Metadata.Set(name, value)
	}
	if err := c.Publisher().Publish(cmd.topic, m); err != nil {
		return fmt.Errorf("%s %s: %w (it may have arrived all the same; %s)", cmd.headers[envelope.HeaderType], cmd.id, err, c.hint)
	}
	return nil
}
