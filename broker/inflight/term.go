package inflight

import (
	"context"
	"sync"
)

// A Term is the time in which a broker is used. What was begun in it is over when
// [Term.End] returns.
type Term struct {
	work sync.WaitGroup
	over chan struct{}

	mu    sync.Mutex
	ended bool
}

// NewTerm returns a Term that has begun.
func NewTerm() *Term { return &Term{over: make(chan struct{})} }

// Over is closed when the term has ended, and not all of it is over yet.
func (t *Term) Over() <-chan struct{} { return t.over }

// Begin counts one thing more that End waits for, until [Term.Done]. It returns
// false if the term has ended.
func (t *Term) Begin() bool { return t.Add(&t.work) }

// Add counts one thing more in a group that somebody else waits for after End.
// It returns false if the term has ended.
func (t *Term) Add(group *sync.WaitGroup) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	group.Add(1)
	return true
}

// Go runs f, and End waits for it. It is for what was begun itself.
func (t *Term) Go(f func()) { t.work.Go(f) }

// Done says that something that was begun is over.
func (t *Term) Done() { t.work.Done() }

// Until returns a context that ends with ctx, when closing is closed, or with the
// term. Stop ends it too, and must be called.
func (t *Term) Until(ctx context.Context, closing <-chan struct{}) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		select {
		case <-closing:
		case <-t.over:
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watched
	}
}

// End ends the term, and waits for what was begun. It can be called again.
func (t *Term) End() {
	t.mu.Lock()
	if !t.ended {
		t.ended = true
		close(t.over)
	}
	t.mu.Unlock()
	t.work.Wait()
}

// Subscriptions are those of one subscriber. They end with it, or with the term
// of its broker.
type Subscriptions struct {
	term    *Term
	closing chan struct{}
	open    sync.WaitGroup // those that may still send
	once    sync.Once
}

// NewSubscriptions returns none yet.
func NewSubscriptions(t *Term) *Subscriptions {
	return &Subscriptions{term: t, closing: make(chan struct{})}
}

// Join counts one more, until it calls Left, and then [Term.Done]. It returns
// false if it is too late.
func (s *Subscriptions) Join() bool {
	t := s.term
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-s.closing:
		return false
	default:
	}
	if t.ended {
		return false
	}
	t.work.Add(1)
	s.open.Add(1)
	return true
}

// Left says that a subscription has closed its channel.
func (s *Subscriptions) Left() { s.open.Done() }

// Closing is closed with the subscriber.
func (s *Subscriptions) Closing() <-chan struct{} { return s.closing }

// Until returns a context that ends with ctx, with the subscriber, or with the
// term. Stop ends it too, and must be called.
func (s *Subscriptions) Until(ctx context.Context) (_ context.Context, stop func()) {
	return s.term.Until(ctx, s.closing)
}

// Close ends all subscriptions and waits until their channels are closed.
func (s *Subscriptions) Close() error {
	s.once.Do(func() { close(s.closing) })
	s.open.Wait()
	return nil
}
