package timertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// errDown is the answer of the broker while it is down, and to a process that was killed.
var errDown = fmt.Errorf("%w: the broker is down for a while (timertest)", broker.ErrUnavailable)

// A link is a broker as one process has it: it is away while it is down, and for
// good once it is closed.
type link struct {
	broker.Broker
	outage *outage
	open   *unackedCommands
	work   sync.WaitGroup

	mu     sync.Mutex
	over   chan struct{} // closed by close
	closed bool
	subs   []*linkSubscriber
}

func newLink(b broker.Broker, o *outage, open *unackedCommands) *link {
	return &link{Broker: b, outage: o, open: open, over: make(chan struct{})}
}

// close ends all subscriptions. Messages that were delivered and are not acked come again, to
// another process.
func (l *link) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.over)
	}
	subs := l.subs
	l.mu.Unlock()
	for _, s := range subs {
		_ = s.Close()
	}
	l.work.Wait()
}

// away returns an error while the broker can't be reached.
func (l *link) away() error {
	if isClosed(l.over) || l.outage.away() {
		return errDown
	}
	return nil
}

// Ready returns an error while the broker is down.
func (l *link) Ready(ctx context.Context) error {
	if err := l.away(); err != nil {
		return err
	}
	return l.Broker.Ready(ctx)
}

// Interruptions counts outages, too.
func (l *link) Interruptions() (int64, error) {
	n, away := l.Broker.Interruptions()
	if err := l.away(); err != nil {
		away = err
	}
	return n + l.outage.count(), away
}

// Now returns the broker's time, an error while it is down.
func (l *link) Now(ctx context.Context) (time.Time, error) {
	if err := l.away(); err != nil {
		return time.Time{}, err
	}
	return l.Broker.Now(ctx)
}

// Claim fails while the broker is down.
func (l *link) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	if err := l.away(); err != nil {
		return broker.Owner{}, err
	}
	return l.Broker.Claim(ctx, role, owner, takeover)
}

// CatchUp fails when the broker goes down meanwhile.
func (l *link) CatchUp(ctx context.Context, role string) error {
	_, down := l.outage.changes()
	ctx, cancel := until(ctx, down, errDown)
	defer cancel()
	ctx, end := until(ctx, l.over, errDown)
	defer end()
	err := l.Broker.CatchUp(ctx, role)
	if err != nil && errors.Is(context.Cause(ctx), errDown) {
		return errDown
	}
	return err
}

// Publisher returns one that fails while the broker is down.
func (l *link) Publisher() broker.Publisher { return linkPublisher{l} }

type linkPublisher struct{ link *link }

// Publish publishes nothing while the broker is down.
func (p linkPublisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	if err := p.link.away(); err != nil {
		return broker.All(len(messages), err)
	}
	return p.link.Broker.Publisher().Publish(ctx, messages...)
}

// Subscriber returns one that delivers nothing while the broker is down.
func (l *link) Subscriber(role string) message.Subscriber {
	return l.subscriber(l.Broker.Subscriber(role))
}

// Tail returns one that delivers nothing while the broker is down.
func (l *link) Tail() message.Subscriber { return l.subscriber(l.Broker.Tail()) }

func (l *link) subscriber(inner message.Subscriber) message.Subscriber {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &linkSubscriber{Subscriber: inner, link: l, closing: make(chan struct{})}
	if l.closed {
		_ = s.Close()
	}
	l.subs = append(l.subs, s)
	return s
}
