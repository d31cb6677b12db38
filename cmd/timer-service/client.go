package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// connectTimeout is how long a verb waits for the broker.
const connectTimeout = 5 * time.Second

// A client is a connection with the broker. Close it.
type client struct {
	broker.Broker
	hint    string   // what may be wrong if the broker does not answer
	closers []func() // of the subscriptions
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // of the broker's Run; valid once ended is closed
}

// connect connects with the broker that the configuration names, and waits for it
// until ctx ends. The connection does not end with ctx, but with close: work that
// is half done when ctx ends can be finished.
func connect(ctx context.Context, e *env, verb string) (*client, error) {
	b, address, err := service.Client(e.cfg, e.log)
	if errors.Is(err, service.ErrNoServer) {
		return nil, err
	}
	if err != nil {
		return nil, wrong(verb, "%w", err) // the network was not used yet
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &client{Broker: b, hint: "is the server up?", cancel: cancel, ended: make(chan struct{})}
	if e.cfg.Embedded() {
		c.hint = fmt.Sprintf("is %q running, with the same --db-path?", program+" serve")
	}
	go func() {
		defer close(c.ended)
		c.err = b.Run(running)
	}()
	if err := c.waitReady(ctx); err != nil {
		c.close()
		if ctx.Err() != nil {
			return nil, errors.New("interrupted, and nothing was published")
		}
		return nil, fmt.Errorf("no answer from the broker at %s; %s (%w)", address, c.hint, err)
	}
	return c, nil
}

// waitReady waits until the broker is ready. If it is not in time, the error says
// what is wrong.
func (c *client) waitReady(ctx context.Context) error {
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
			return cmp.Or(c.err, err)
		}
	}
}

// close ends the subscriptions and disconnects.
func (c *client) close() {
	for _, f := range c.closers {
		f()
	}
	c.cancel()
	<-c.ended
}

// listen subscribes to a topic until ctx ends or the client is closed. What is
// published after it returned will arrive.
func (c *client) listen(ctx context.Context, topic string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	subscriber := c.Tail()
	c.closers = append(c.closers, func() {
		cancel()
		_ = subscriber.Close() // nothing is lost with it
	})
	messages, err := subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", topic, err)
	}
	return messages, nil
}

// newMessage returns a message with an id, a body and headers.
func newMessage(id string, body []byte, headers map[string]string) *message.Message {
	m := message.NewMessage(id, body)
	for name, value := range headers {
		m.Metadata.Set(name, value)
	}
	return m
}

// command publishes a command of the tenant that its headers name, and returns
// when the broker has made it durable.
func (c *client) command(ctx context.Context, m *message.Message, version timer.Version) (*published, error) {
	done := newPublished(m, version)
	done.Topic = c.Routing().CommandsOf(done.TenantID)
	if err := c.Publisher().Publish(ctx, broker.Message{Topic: done.Topic, Message: m})[0]; err != nil {
		return nil, fmt.Errorf("%s %s: %w (the broker may have it nevertheless; %s)", done.Type, m.UUID, err, c.hint)
	}
	return done, nil
}

// Results of a command, as far as they are known.
const (
	resultPublished  = "published"  // the broker made it durable
	resultReached    = "reached"    // the timer fired
	resultCanceled   = "canceled"   // the timer is canceled
	resultIgnored    = "ignored"    // it has no effect: the timer fired before, or a newer command came
	resultDeadLetter = "deadLetter" // the service refused it
	resultTimeout    = "timeout"    // no answer arrived in time
)

// A published is a command that the broker made durable, and its result.
type published struct {
	Result        string              `json:"result"`
	Type          string              `json:"type"`
	ID            string              `json:"id"`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	TimestampMS   int64               `json:"timestampMs"`
	CorrelationID string              `json:"correlationId,omitempty"`
	DueAt         stamp               `json:"dueAt,omitzero"`
	Topic         string              `json:"topic"`
	Before        *shownTimer         `json:"before,omitempty"` // the timer that is to be canceled, if it is known

	EventID        string       `json:"eventId,omitempty"`
	ReachedAt      stamp        `json:"reachedAt,omitzero"`
	LatenessMS     *int64       `json:"latenessMs,omitempty"`     // reachedAt - dueAt, by the service's clock: how late the timer fired
	ArrivalDelayMS *int64       `json:"arrivalDelayMs,omitempty"` // arrival of the event here - dueAt: how late it is for a consumer
	Reason         timer.Reason `json:"reason,omitempty"`         // of a dead letter
	Detail         string       `json:"detail,omitempty"`

	was string // Before for people
}

func newPublished(m *message.Message, version timer.Version) *published {
	return &published{
		Result:        resultPublished,
		Type:          m.Metadata.Get(envelope.HeaderType),
		ID:            version.CommandID,
		TenantID:      timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID)),
		ServiceCallID: timer.ServiceCallID(m.Metadata.Get(envelope.HeaderServiceCallID)),
		TimestampMS:   version.TimestampMS,
		CorrelationID: m.Metadata.Get(envelope.HeaderCorrelationID),
	}
}

func (p *published) key() timer.Key {
	return timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
}

func (p *published) text() string {
	what := p.Type
	if !p.DueAt.IsZero() {
		what = "due " + when(p.DueAt)
	}
	line := fmt.Sprintf("%-10s %s  %s  id %s", resultPublished, p.key(), what, p.ID)
	if p.was != "" {
		line += "  (" + p.was + ")"
	}
	return line
}

// answer returns what became of the command, for people.
func (p *published) answer() string {
	line := fmt.Sprintf("%-10s %s", p.Result, p.key())
	if p.Result == resultReached {
		line += fmt.Sprintf("  %s late", lateness(*p.ArrivalDelayMS))
	}
	return line
}
