package app_test

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// A simBroker is the worst broker that still keeps the contract: it delivers
// in any order, delivers a command again when its ack gets lost, fails
// publishes before or after they took effect, and refuses some events. It
// outlives the app, as a broker does.
type simBroker struct {
	broker.DeadLetters // not visited

	decide  fault.Decide
	now     func() time.Time                  // its clock; nil if it has none
	refuses func(event *message.Message) bool // nil: it accepts all
	delay   time.Duration                     // of each publish

	mu              sync.Mutex
	seed, delivered uint64
	commands        []*simCommand
	ready           []*simCommand // of commands: they may be delivered
	inFlight        map[*simCommand]bool
	changed         chan struct{} // closed and replaced when a command becomes ready
	events          []simEvent
	dead            []*message.Message
}

type simCommand struct {
	msg      *message.Message
	ackedAt  time.Time // by the bubble's clock, at the first ack that arrived; zero before
	ready    bool      // may be delivered
	attempts int
	answers  int // acks and nacks
}

type simEvent struct {
	at  time.Time // by the bubble's clock
	msg *message.Message
}

var simRouting = broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq"}

// History returns none.
func (*simBroker) History() (broker.History, string) { return nil, "the simulation keeps nothing" }

func newSimBroker(seed uint64, decide fault.Decide) *simBroker {
	return &simBroker{inFlight: make(map[*simCommand]bool), decide: decide, seed: seed, changed: make(chan struct{})}
}

func (b *simBroker) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (b *simBroker) Ready(context.Context) error   { return nil }
func (b *simBroker) Routing() broker.Routing       { return simRouting }
func (b *simBroker) Tail() message.Subscriber      { return nil }
func (b *simBroker) Publisher() broker.Publisher {
	return &fault.Publisher{Publisher: (*simPublisher)(b), Decide: b.decide}
}

func (b *simBroker) Interruptions() (int64, error) { return 0, nil }

// CatchUp waits until all commands that can be delivered now, or are in flight, were answered.
func (b *simBroker) CatchUp(ctx context.Context, _ string) error {
	open := make(map[*simCommand]int)
	b.mu.Lock()
	for _, c := range b.ready {
		open[c] = c.answers
	}
	for c := range b.inFlight {
		open[c] = c.answers
	}
	b.mu.Unlock()
	return pause.Until(ctx, func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for c, before := range open {
			if c.answers == before {
				return false, nil
			}
		}
		return true, nil
	})
}

// Provision has nothing to make.
func (b *simBroker) Provision(context.Context, bool) ([]broker.Change, error) { return nil, nil }

// Claim has the owner that asks.
func (b *simBroker) Claim(_ context.Context, _ string, owner broker.Owner, _ bool) (broker.Owner, error) {
	return owner, nil
}

// Subscriber returns a subscriber whose answers get lost. To subscribe never
// fails: by contract that waits for a broker which is down.
func (b *simBroker) Subscriber(string) message.Subscriber {
	return &fault.Subscriber{Subscriber: (*simSubscriber)(b), Decide: func(op string) fault.Kind {
		if op == "subscribe" || b.decide == nil {
			return fault.None
		}
		return b.decide(op)
	}}
}

// send makes a command deliverable.
func (b *simBroker) send(msg *message.Message) *simCommand {
	c := &simCommand{msg: msg}
	b.mu.Lock()
	b.commands = append(b.commands, c)
	b.mu.Unlock()
	b.resend(c)
	return c
}

// resend makes a command deliverable again, acked or not.
func (b *simBroker) resend(c *simCommand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.ready {
		return
	}
	c.ready = true
	b.ready = append(b.ready, c)
	close(b.changed)
	b.changed = make(chan struct{})
}

// next removes a random deliverable command, or returns what to wait for.
func (b *simBroker) next() (*simCommand, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil, b.changed
	}
	b.delivered++
	i := drawn(b.seed, "deliver", b.delivered).IntN(len(b.ready))
	c := b.ready[i]
	b.ready = slices.Delete(b.ready, i, i+1)
	c.ready = false
	c.attempts++
	b.inFlight[c] = true
	return c, nil
}

type simSubscriber simBroker

func (s *simSubscriber) Close() error { return nil }

func (s *simSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	b, out := (*simBroker)(s), make(chan *message.Message)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			c, wait := b.next()
			if c == nil {
				select {
				case <-ctx.Done():
				case <-wait:
				}
				continue
			}
			m := c.msg.Copy()
			m.SetContext(ctx)
			m.Metadata.Set(broker.MetaTopic, simRouting.Commands)
			m.Metadata.Set(broker.MetaPosition, m.UUID)
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

// settle waits for the answer. A command that is nacked, or whose ack got lost,
// comes back later: never at once, because an app that fails at once would be
// kept busy without any time going by.
func (b *simBroker) settle(c *simCommand, m *message.Message) {
	select {
	case <-m.Acked():
		b.mu.Lock()
		defer b.mu.Unlock()
		c.answers++
		delete(b.inFlight, c)
		if c.ackedAt.IsZero() {
			c.ackedAt = time.Now()
		}
	case <-m.Nacked():
		b.mu.Lock()
		defer b.mu.Unlock()
		c.answers++
		delete(b.inFlight, c)
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

// publishedSince returns the events and dead letters after the first ones.
func (b *simBroker) publishedSince(events, dead int) ([]simEvent, []*message.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events[events:]), slices.Clone(b.dead[dead:])
}

// ackedAt returns when the first ack of a command arrived, by the bubble's
// clock, or zero.
func (b *simBroker) ackedAt(c *simCommand) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.ackedAt
}

// Now is the reference of the service's clock.
func (b *simBroker) Now(context.Context) (time.Time, error) {
	if b.now == nil {
		return time.Time{}, errors.ErrUnsupported
	}
	if b.decide != nil && b.decide("now") != fault.None {
		return time.Time{}, fault.ErrInjected
	}
	return b.now(), nil
}

type simPublisher simBroker

func (p *simPublisher) Publish(_ context.Context, messages ...broker.Message) []error {
	b := (*simBroker)(p)
	results := make([]error, len(messages))
	if messages[0].Topic == simRouting.Commands {
		b.send(messages[0].Message)
		return results
	}
	if b.delay > 0 {
		<-time.After(b.delay)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range messages {
		c := m.Copy()
		c.Metadata.Set("topic", m.Topic)
		switch {
		case m.Metadata.Get(envelope.HeaderType) == envelope.TypeDeadLetter:
			b.dead = append(b.dead, c)
		case b.refuses != nil && b.refuses(c):
			results[i] = broker.ErrRefused
		default:
			b.events = append(b.events, simEvent{time.Now(), c})
		}
	}
	return results
}

// failures decide which calls fail, and how. The zero value lets none fail.
type failures struct {
	seed    uint64
	oneIn   int        // one call in this many fails; 0: none does
	crashIn int        // the process crashes at one call in this many; 0: at none
	nth     int        // this call fails, from 1, in the way that follows; 0: none does
	kind    fault.Kind // of the failure of the nth call
	crash   bool       // at the nth call

	mu     sync.Mutex
	calls  map[string]uint64 // of each operation
	all    int               // calls
	doomed string            // the process crashes at the next call of this operation; empty: at none
	down   map[string]bool   // operations that fail all the time, without effect
	dead   bool              // every call fails and has no effect
}

// decide waits before a failure, as failures take time: earlier actions of the process,
// such as an ack, take effect.
func (f *failures) decide(op string) fault.Kind {
	kind, crash := f.choose(op)
	if kind == fault.None {
		return kind
	}
	<-time.After(failing)
	if crash {
		f.die(true)
	}
	return kind
}

const failing = time.Millisecond // how long a failing call takes

func (f *failures) choose(op string) (kind fault.Kind, crash bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fault.Before, false
	}
	if f.calls == nil {
		f.calls = make(map[string]uint64)
	}
	f.calls[op]++
	f.all++
	rng := drawn(f.seed, op, f.calls[op])
	switch {
	case f.all == f.nth:
		return f.kind, f.crash
	case f.doomed == op:
		f.doomed, crash = "", true
	case f.crashIn > 0 && rng.IntN(f.crashIn) == 0:
		crash = true
	case f.down[op]:
		return fault.Before, false
	case f.oneIn == 0 || rng.IntN(f.oneIn) != 0:
		return fault.None, false
	}
	return fault.Kind(1 + rng.IntN(2)), crash
}

func (f *failures) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.oneIn, f.crashIn, f.down = 0, 0, nil
}

// die makes every call of the process fail, or ends that.
func (f *failures) die(dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead, f.doomed = dead, ""
}

// doom makes the process crash at the next call of an operation.
func (f *failures) doom(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doomed = op
}

func (f *failures) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// storeOps are what fails while the store is down.
var storeOps = []string{"schedule", "cancel", "update", "next_due", "head", "delete", "purge", "fail", "park", "get", "counts"}

// outage makes operations fail until the next call of outage.
func (f *failures) outage(ops ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = make(map[string]bool)
	for _, op := range ops {
		f.down[op] = true
	}
}

func name(prefix string, n int) string { return prefix + strconv.Itoa(n) }

// drawn returns numbers that follow from a seed and from which call of an operation asks,
// whatever other operations were called meanwhile.
func drawn(seed uint64, op string, nth uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(op)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), nth))
}
