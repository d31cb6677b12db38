package inflight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A Term is the lifetime of a broker: from [NewTerm] until [Term.End], which
// waits for all work that was counted in it.
type Term struct {
	work sync.WaitGroup
	ctx  context.Context // it ends with the term
	end  context.CancelFunc

	run atomic.Bool // Run was called

	mu sync.Mutex // held while work is counted, and while the term is ended
}

// NewTerm returns a Term that has begun.
func NewTerm() *Term {
	t := new(Term)
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// Run returns nil when ctx is done and the term has ended. It is the Run of a broker that keeps
// no connection, and works once.
func (t *Term) Run(ctx context.Context) error {
	if !t.run.CompareAndSwap(false, true) {
		return errors.New("the broker has been run already")
	}
	<-ctx.Done()
	t.End()
	return nil
}

// Running reports whether Run was called and the term has not ended.
func (t *Term) Running() bool { return t.run.Load() && t.ctx.Err() == nil }

// Context returns a context that ends with the term, as soon as End is called.
func (t *Term) Context() context.Context { return t.ctx }

// Begin counts one piece of work, until [Term.Done]. It returns false if the term
// has ended.
func (t *Term) Begin() bool { return t.count(t.ctx, &t.work) }

// Add counts one piece of work in a group that the caller waits for after End.
// It returns false if the term has ended.
func (t *Term) Add(group *sync.WaitGroup) bool { return t.count(t.ctx, group) }

// count counts one piece of work in groups. It returns false if ctx, which ends with the
// term, has ended.
func (t *Term) count(ctx context.Context, groups ...*sync.WaitGroup) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	for _, g := range groups {
		g.Add(1)
	}
	return true
}

// Go runs f as a piece of work. It is called from work that is counted already.
func (t *Term) Go(f func()) { t.work.Go(f) }

// Done ends a piece of work of Begin.
func (t *Term) Done() { t.work.Done() }

// Until returns a context that ends with ctx, or with the term. Stop ends it too, and
// must be called.
func (t *Term) Until(ctx context.Context) (_ context.Context, stop func()) {
	return pause.WhileBoth(ctx, t.ctx)
}

// End ends the term and waits for its work. It can be called again.
func (t *Term) End() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.work.Wait()
}

// Subscriptions are the subscriptions of one subscriber. They end with
// [Subscriptions.Close], or with the term of the broker.
type Subscriptions struct {
	term  *Term
	ctx   context.Context // ends with Close, or with the term
	close context.CancelFunc
	open  sync.WaitGroup // subscriptions whose channels are not closed
}

// NewSubscriptions returns Subscriptions without any subscription.
func NewSubscriptions(t *Term) *Subscriptions {
	s := &Subscriptions{term: t}
	s.ctx, s.close = context.WithCancel(t.ctx)
	return s
}

// join counts one subscription as open and as work of the term. It returns false if the
// subscriber is closed or the term has ended.
func (s *Subscriptions) join() bool { return s.term.count(s.ctx, &s.term.work, &s.open) }

// Closed reports whether the subscriber is closed or the term has ended.
func (s *Subscriptions) Closed() bool { return s.ctx.Err() != nil }

// Close ends all subscriptions and waits until their channels are closed.
func (s *Subscriptions) Close() error {
	s.close()
	s.open.Wait()
	return nil
}
