package inflight

import (
	"context"
	"sync"
)

// A Term is the lifetime of a broker: from [NewTerm] until [Term.End], which
// waits for all work that was counted in it.
type Term struct {
	work sync.WaitGroup
	over chan struct{}

	mu    sync.Mutex
	ended bool
}

// NewTerm returns a Term that has begun.
func NewTerm() *Term { return &Term{over: make(chan struct{})} }

// Over is closed as soon as End is called.
func (t *Term) Over() <-chan struct{} { return t.over }

// Begin counts one piece of work, until [Term.Done]. It returns false if the term
// has ended.
func (t *Term) Begin() bool { return t.Add(&t.work) }

// Add counts one piece of work in a group that the caller waits for after End.
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

// Go runs f as a piece of work. It is called from work that is counted already.
func (t *Term) Go(f func()) { t.work.Go(f) }

// Done ends a piece of work of Begin or of [Subscriptions.Join].
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

// End ends the term and waits for its work. It can be called again.
func (t *Term) End() {
	t.mu.Lock()
	if !t.ended {
		t.ended = true
		close(t.over)
	}
	t.mu.Unlock()
	t.work.Wait()
}

// Subscriptions are those of one subscriber. They end with [Subscriptions.Close],
// or with the term of the broker.
type Subscriptions struct {
	term    *Term
	closing chan struct{}
	open    sync.WaitGroup // subscriptions that may still send
	once    sync.Once
}

// NewSubscriptions returns Subscriptions without any subscription.
func NewSubscriptions(t *Term) *Subscriptions {
	return &Subscriptions{term: t, closing: make(chan struct{})}
}

// Join counts one subscription, until it calls Left, and then [Term.Done]. It
// returns false if the subscriber is closed or the term has ended.
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

// Left is called by a subscription after it has closed its channel.
func (s *Subscriptions) Left() { s.open.Done() }

// Closing is closed as soon as Close is called.
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
