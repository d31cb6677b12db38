package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// connectTimeout is how long a verb waits for the broker.
const connectTimeout = 5 * time.Second

// A connection is one with the broker. Close it.
type connection struct {
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
func connect(ctx context.Context, e *env, verb string) (*connection, error) {
	b, address, err := service.Client(e.cfg, e.log)
	if errors.Is(err, service.ErrNoServer) {
		return nil, err
	}
	if err != nil {
		return nil, wrong(verb, "%w", err) // the network was not used yet
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &connection{Broker: b, hint: "is the server up?", cancel: cancel, ended: make(chan struct{})}
	if e.cfg.Embedded() {
		c.hint = fmt.Sprintf("is %q running, with the same --db-path?", program+" serve")
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
		return nil, fmt.Errorf("no answer from the broker at %s; %s (%w)", address, c.hint, cmp.Or(c.err, err))
	}
	return c, nil
}

// close ends the subscriptions and disconnects.
func (c *connection) close() {
	for _, f := range c.closers {
		f()
	}
	c.cancel()
	<-c.ended
}

// listen subscribes to a topic until ctx ends or the client is closed. What is
// published after it returned will arrive.
func (c *connection) listen(ctx context.Context, topic string) (<-chan *message.Message, error) {
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

// command publishes a command of a version, and returns its message when the broker
// has made it durable.
func (c *connection) command(ctx context.Context, command any, version timer.Version) (*message.Message, *published, error) {
	m, err := client.Marshaler{}.Marshal(command)
	if err != nil {
		return nil, nil, err
	}
	done := newPublished(m, version)
	done.Topic = c.Routing().CommandsOf(done.TenantID)
	if err := c.Publisher().Publish(ctx, broker.Message{Topic: done.Topic, Message: m})[0]; err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w (the broker may have it nevertheless; %s)", done.Type, m.UUID, err, c.hint)
	}
	return m, done, nil
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
	Topic         string              `json:"topic,omitempty"`  // none if a service published it
	Before        *shownTimer         `json:"before,omitempty"` // the timer that is to be canceled, if it is known

	EventID        string       `json:"eventId,omitempty"`
	ReachedAt      stamp        `json:"reachedAt,omitzero"`
	LatenessMS     *int64       `json:"latenessMs,omitempty"`     // reachedAt - dueAt, by the service's clock: how late the timer fired
	ArrivalDelayMS *int64       `json:"arrivalDelayMs,omitempty"` // arrival of the event here - dueAt: how late it is for a consumer
	Reason         timer.Reason `json:"reason,omitempty"`         // of a dead letter
	Detail         string       `json:"detail,omitempty"`

	was string // Before for people
}

// newRemote returns a command that a service published.
func newRemote(kind string, c admin.Command) *published {
	return &published{
		Result: resultPublished, Type: kind, ID: c.ID, TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, TimestampMS: c.TimestampMS,
		CorrelationID: c.CorrelationID, DueAt: parseStamp(c.DueAt),
	}
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
		line += fmt.Sprintf("  %s late", lateness(*cmp.Or(p.ArrivalDelayMS, p.LatenessMS)))
	}
	return line
}
