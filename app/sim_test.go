package app_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
)

// A simBroker is the worst broker that still keeps the contract: it delivers
// in any order, delivers again what was acked when the ack gets lost, and
// fails publishes before or after they took effect. It outlives the app, as a
// broker does.
type simBroker struct {
	decide fault.Decide

	mu       sync.Mutex
	rng      *rand.Rand
	commands []*simCommand
	changed  chan struct{} // closed and replaced when commands change
	events   []simEvent
	dead     []*message.Message
}

type simCommand struct {
	msg      *message.Message
	ackedAt  time.Time // by the bubble's clock, at the first ack; zero before
	due      bool      // may be delivered
	attempts int
}

type simEvent struct {
	at  time.Time // by the bubble's clock
	msg *message.Message
}

var simRouting = broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq"}

func newSimBroker(seed uint64, decide fault.Decide) *simBroker {
	return &simBroker{decide: decide, rng: rand.New(rand.NewPCG(seed, 1)), changed: make(chan struct{})}
}

func (b *simBroker) Run(ctx context.Context) error        { <-ctx.Done(); return nil }
func (b *simBroker) Ready(context.Context) error          { return nil }
func (b *simBroker) Routing() broker.Routing              { return simRouting }
func (b *simBroker) Subscriber(string) message.Subscriber { return (*simSubscriber)(b) }
func (b *simBroker) Tail() message.Subscriber             { return nil }
func (b *simBroker) Publisher() message.Publisher {
	return &fault.Publisher{Publisher: (*simPublisher)(b), Decide: b.decide}
}

// send makes a command deliverable.
func (b *simBroker) send(msg *message.Message) *simCommand {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &simCommand{msg: msg, due: true}
	b.commands = append(b.commands, c)
	b.wakeLocked()
	return c
}

// resend makes a command deliverable again, acked or not.
func (b *simBroker) resend(c *simCommand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.due = true
	b.wakeLocked()
}

func (b *simBroker) wakeLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// take removes a random deliverable command, or returns what to wait for.
func (b *simBroker) take() (*simCommand, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ready []*simCommand
	for _, c := range b.commands {
		if c.due {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return nil, b.changed
	}
	c := ready[b.rng.IntN(len(ready))]
	c.due = false
	c.attempts++
	return c, nil
}

type simSubscriber simBroker

func (s *simSubscriber) Close() error { return nil }

func (s *simSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	b, out := (*simBroker)(s), make(chan *message.Message)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			c, wait := b.take()
			if c == nil {
				select {
				case <-ctx.Done():
				case <-wait:
				}
				continue
			}
			m := c.msg.Copy()
			m.SetContext(ctx)
			m.Metadata.Set(envelope.MetaTopic, simRouting.Commands)
			m.Metadata.Set(envelope.MetaPosition, m.UUID)
			select {
			case out <- m:
				go b.settle(c, m)
			case <-ctx.Done():
				b.resend(c)
			}
		}
	}()
	return out, nil
}

// settle waits for the ack. A lost ack, or none, brings the command back.
func (b *simBroker) settle(c *simCommand, m *message.Message) {
	select {
	case <-m.Acked():
		b.mu.Lock()
		if c.ackedAt.IsZero() {
			c.ackedAt = time.Now()
		}
		b.mu.Unlock()
		if b.decide != nil && b.decide("ack") != fault.None {
			b.resend(c)
		}
	case <-m.Nacked():
		time.AfterFunc(broker.RedeliveryDelay(c.attempts), func() { b.resend(c) })
	}
}

// unacked counts commands that were never acked.
func (b *simBroker) unacked() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.commands {
		if c.ackedAt.IsZero() {
			n++
		}
	}
	return n
}

func (b *simBroker) published() []simEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

type simPublisher simBroker

func (p *simPublisher) Close() error { return errors.New("nobody may close the host's publisher") }

func (p *simPublisher) Publish(topic string, messages ...*message.Message) error {
	b := (*simBroker)(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range messages {
		c := m.Copy()
		c.Metadata.Set("topic", topic)
		if m.Metadata.Get(envelope.HeaderType) == envelope.TypeDeadLetter {
			b.dead = append(b.dead, c)
			continue
		}
		b.events = append(b.events, simEvent{time.Now(), c})
	}
	return nil
}

// failures decide which calls fail, and how.
type failures struct {
	mu    sync.Mutex
	rng   *rand.Rand
	oneIn int  // one call in this many fails; 0: none does
	dead  bool // every call fails and has no effect
}

func (f *failures) decide(string) fault.Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.dead:
		return fault.Before
	case f.oneIn == 0 || f.rng.IntN(f.oneIn) != 0:
		return fault.None
	}
	return fault.Kind(1 + f.rng.IntN(2))
}

func (f *failures) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.oneIn = 0
}

// crash makes the process dead to the world, or lets it live again.
func (f *failures) crash(dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = dead
}

func name(prefix string, n int) string { return prefix + strconv.Itoa(n) }
