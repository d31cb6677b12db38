package outbox

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// Shards is an outbox that several instances share. Each has a shard of its own,
// where its events go; the shards of those that are gone are led by others until
// they are empty.
type Shards interface {
	// Own makes this instance the leader of a shard that nobody leads, and sends
	// its events there from now on.
	Own(ctx context.Context) (Lead, error)

	// Orphan makes this instance the leader of a shard that has rows and that
	// nobody leads. It returns nil without an error if there is none.
	Orphan(ctx context.Context) (Lead, error)
}

// A Lead is the right to forward a shard, which one instance has at a time. It
// is the [Table] of that shard.
type Lead interface {
	Table
	Shard() int            // its number
	Lost() <-chan struct{} // closed when the right is gone, such as with the connection
	Release()              // gives it up, also if it is gone; called once
}

const (
	// orphanPause is about how long nobody forwards what a killed instance left.
	orphanPause = 500 * time.Millisecond
	// maxOrphans is how many shards an instance leads at a time beside its own:
	// each takes a connection.
	maxOrphans = 4
	tellAfter  = 20          // looks for orphans that failed
	maxLead    = time.Second // longest pause after a lead could not be had
)

// SharedInterval is what [ForwarderOptions] of a shard should have at most as
// Interval. Who lost a lead, and does not know yet, appends to a shard that
// another leads. Such a row may commit behind later ones, and is found by the
// next pass only.
const SharedInterval = 500 * time.Millisecond

// A Relay forwards the shards that this instance leads, with a [Forwarder] each.
type Relay struct {
	shards  Shards
	forward func(Table) *Forwarder
	log     *slog.Logger

	led   chan struct{} // closed when it leads a shard of its own for the first time
	first sync.Once

	mu   sync.Mutex
	own  *Forwarder    // of its own shard; nil while it leads none
	over chan struct{} // closed when own forwards no more
}

// NewRelay returns a Relay. Forward makes the Forwarder of a shard. It starts
// nothing: call [Relay.Run].
func NewRelay(shards Shards, forward func(Table) *Forwarder, log *slog.Logger) *Relay {
	return &Relay{shards: shards, forward: forward, log: log, led: make(chan struct{})}
}

// Led is closed when this instance leads a shard of its own for the first time.
// Events that are appended before go to a shard of another instance, which
// nobody tells of them.
func (r *Relay) Led() <-chan struct{} { return r.led }

// Run forwards until ctx is done, then finishes the batches in hand, gives up
// its leads and returns nil. It returns an error only if that wraps
// [timer.ErrFatal].
func (r *Relay) Run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return r.leadOwn(ctx) })
	parts.Go(func() error { return r.leadOrphans(ctx) })
	return parts.Wait()
}

// leadOwn leads a shard of its own, and another one when that is lost.
func (r *Relay) leadOwn(ctx context.Context) error {
	for backoff := minBackoff; ; {
		lead, err := r.shards.Own(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			r.log.WarnContext(ctx, "no shard of the outbox to lead, will retry", "error", err, "retry_in", backoff)
			if !pause.For(ctx, backoff) {
				return nil
			}
			backoff = min(2*backoff, maxLead)
			continue
		}
		backoff = minBackoff
		f := r.forward(lead)
		r.set(f)
		r.first.Do(func() { close(r.led) })
		f.Wake() // there may be rows of whoever led it before
		err = run(ctx, lead, f)
		r.set(nil)
		if err != nil || ctx.Err() != nil {
			return err
		}
		r.log.WarnContext(ctx, "lost the lead of a shard of the outbox, takes another", "shard", lead.Shard())
	}
}

// leadOrphans leads what others left behind, until it is forwarded. It takes no
// lead that it would let wait: another instance may have the time.
func (r *Relay) leadOrphans(ctx context.Context) error {
	orphans, ctx := errgroup.WithContext(ctx)
	places := make(chan struct{}, maxOrphans)
	for failed := 0; ctx.Err() == nil; {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		lead, err := r.shards.Orphan(ctx)
		if err == nil && lead != nil {
			orphans.Go(func() error {
				defer func() { <-places }()
				return r.adopt(ctx, lead)
			})
			continue
		}
		<-places
		switch {
		case errors.Is(err, timer.ErrFatal):
			orphans.Go(func() error { return err })
			return orphans.Wait()
		case err == nil:
			failed = 0
		default: // if the database is away for a moment, others tell
			if failed++; failed%tellAfter == 0 {
				r.log.WarnContext(ctx, "can't look for what others left behind in the outbox, will retry", "error", err, "failed", failed)
			}
		}
		pause.For(ctx, orphanPause*3/4+rand.N(orphanPause/2)) //nolint:gosec // so that instances do not look at the same time
	}
	return orphans.Wait()
}

// adopt forwards a shard until it is empty.
func (r *Relay) adopt(ctx context.Context, lead Lead) error {
	r.log.InfoContext(ctx, "forwards what an instance left behind that is gone", "shard", lead.Shard())
	ctx, end := context.WithCancel(ctx)
	defer end()
	f := r.forward(lead)
	var drained sync.WaitGroup
	defer drained.Wait()
	drained.Go(func() {
		if f.Drain(ctx) == nil {
			end()
		}
	})
	defer end()
	return run(ctx, lead, f)
}

// run forwards a shard until ctx is done or the lead is lost, and gives it up.
func run(ctx context.Context, lead Lead, f *Forwarder) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-lead.Lost():
			cancel()
		case <-ctx.Done():
		}
	})
	err := f.Run(ctx)
	cancel()
	watching.Wait()
	lead.Release()
	return err
}

// set notes which forwarder has its own shard; nil for none.
func (r *Relay) set(f *Forwarder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		close(r.over)
	}
	r.own, r.over = f, nil
	if f != nil {
		r.over = make(chan struct{})
	}
}

func (r *Relay) current() (f *Forwarder, over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own, r.over
}

// Appended tells that so many rows were appended to its own shard, as
// [Forwarder.Appended] does.
func (r *Relay) Appended(rows int) {
	if f, _ := r.current(); f != nil {
		f.Appended(rows)
	}
}

// Waiting returns how many rows wait in its own shard, as [Forwarder.Waiting]
// does; very many while it leads none.
func (r *Relay) Waiting() int {
	if f, _ := r.current(); f != nil {
		return f.Waiting()
	}
	return math.MaxInt
}

// Drain waits until its own shard is empty, as [Forwarder.Drain] does, if it ever
// led one.
func (r *Relay) Drain(ctx context.Context) error {
	select {
	case <-r.led:
	default:
		return nil
	}
	for {
		if f, over := r.current(); f != nil {
			err := drain(ctx, f, over)
			if err == nil || ctx.Err() != nil {
				return err
			}
			continue // with its next shard: others forward the one that was lost
		}
		if !pause.For(ctx, drainPause) {
			return ctx.Err()
		}
	}
}

// drain waits until a shard is empty, or forwarded here no more, which is an error.
func drain(ctx context.Context, f *Forwarder, over <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	})
	return f.Drain(ctx)
}
