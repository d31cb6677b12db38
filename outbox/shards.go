package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// Shards is an outbox that several instances share. Each owns a shard, where its
// events go; the shards of instances that are gone are taken over by others until
// they are empty. Ownership is there so that no row is published twice.
type Shards interface {
	// Own makes this instance the owner of a shard that has none, and appends its
	// events there from now on. As long as it has the lease, the others know its receivers.
	// The error wraps [ErrOtherReceivers] if an instance has receivers of another kind, and
	// names both.
	Own(ctx context.Context, r Receivers) (Lease, error)

	// TakeOver makes this instance the owner of an abandoned shard, which has rows and no
	// owner. It returns nil without an error if there is none. It prefers a shard with
	// rows that are not deferred. Among shards with deferred rows only it does not
	// always choose the same.
	TakeOver(ctx context.Context) (Lease, error)
}

// Receivers get the events of an instance. Instances that share an outbox have the same kind,
// each with prefixes of its own: it leaves an event that it has no handler for to one that has.
type Receivers struct {
	Kind     Kind
	Prefixes []string // of the service calls of events that handlers get
}

// A Kind of receivers says whether events go to handlers, and whether there is a broker. Zero goes
// together with any other.
type Kind int

// Kinds of receivers.
const (
	ToBroker       Kind = 1 + iota
	ToHandlers          // commands come from a broker, and it gets the receipts
	ToHandlersOnly      // there is no broker
)

func (k Kind) String() string {
	switch k {
	case ToBroker:
		return "brings events to a broker"
	case ToHandlers:
		return "has handlers of OnDue and a broker"
	}
	return "has handlers of OnDue and no broker"
}

// ErrOtherReceivers is the error of an instance that would take events of others, which bring
// them elsewhere.
var ErrOtherReceivers = errors.New("instances on one database either all have handlers of OnDue or none, and either all have a broker or none")

// A Lease is the ownership of a shard, which one instance has at a time. It is the
// [Table] of that shard.
type Lease interface {
	Table
	Shard() int            // its number
	Lost() <-chan struct{} // closed when the lease is gone, such as with the connection
	Release()              // ends it, also if it is gone; called once
}

const (
	// sharedInterval bounds [Options].Interval. An instance that has lost its lease without
	// knowing it appends to a shard of another instance. Such a row may commit after rows
	// with higher numbers, and is then found only after the interval.
	sharedInterval = 500 * time.Millisecond

	takeOverInterval = 500 * time.Millisecond // about how long an abandoned shard has no owner
	maxTakenOver     = 4                      // abandoned shards owned at a time: each takes a connection
	turn             = 10 * time.Second       // how long a shard of deferred rows keeps others waiting; longer than a row's longest back-off
	reportFailures   = 20                     // polls for abandoned shards that failed, for a log line
)

// runShards forwards the shards that this instance owns, each with a sender.
func (f *Forwarder) runShards(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return f.runOwn(ctx) })
	parts.Go(func() error { return f.runAbandoned(ctx) })
	return parts.Wait()
}

// runOwn owns a shard and forwards it. When the shard is lost it owns another one.
func (f *Forwarder) runOwn(ctx context.Context) error {
	failures := 0
	for {
		lease, err := f.outbox.Shards.Own(ctx, f.opt.Receivers)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			failures++
			wait := retry.Connection.After(failures)
			f.log.WarnContext(ctx, "no shard of the outbox to own, will retry", "error", err, "retry_in", wait)
			if !pause.For(ctx, wait) {
				return nil
			}
			continue
		}
		failures = 0
		s := newSender(f, lease)
		f.setOwn(s)
		err = runLease(ctx, lease, s)
		f.setOwn(nil)
		if err != nil || ctx.Err() != nil {
			return err
		}
		f.log.WarnContext(ctx, "lost the lease of an outbox shard, acquiring another", "shard", lease.Shard())
	}
}

// runAbandoned takes over abandoned shards until they are empty, as soon as this instance has
// owned one: before, its receivers may not be those of the others. It takes no lease while it
// has no sender for the shard, since another instance may have one.
func (f *Forwarder) runAbandoned(ctx context.Context) error {
	select {
	case <-f.ready:
	case <-ctx.Done():
	}
	senders, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, maxTakenOver)
	full := func() bool { return len(slots) == maxTakenOver }
	for failed := 0; ctx.Err() == nil; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		began := f.clock.Now()
		lease, err := f.outbox.Shards.TakeOver(ctx)
		if err == nil && lease != nil {
			senders.Go(func() error {
				defer func() { <-slots }()
				return f.empty(ctx, lease, full)
			})
			continue
		}
		<-slots
		switch {
		case errors.Is(err, timer.ErrFatal):
			senders.Go(func() error { return err })
			return senders.Wait()
		case err == nil:
			failed = 0
		default: // other parts log that the database is away
			if failed++; failed%reportFailures == 0 {
				f.log.WarnContext(ctx, "can't find abandoned shards of the outbox, will retry", "error", err, "failed", failed)
			}
		}
		wait := takeOverInterval*3/4 + rand.N(takeOverInterval/2) //nolint:gosec // instances poll at different times
		if err == nil {
			wait = pause.Rest(f.clock.Now().Sub(began), wait)
		}
		pause.For(ctx, wait)
	}
	return senders.Wait()
}

// empty forwards a shard until it is empty. While the instance may own no further shard, as
// full says, it gives the shard back after a turn if only deferred rows are left. These may
// fail for any length of time, and other shards may have rows that do not.
func (f *Forwarder) empty(ctx context.Context, lease Lease, full func() bool) error {
	f.log.InfoContext(ctx, "took over an abandoned outbox shard", "shard", lease.Shard())
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := newSender(f, lease)
	f.takenOver.Store(s, true)
	defer f.takenOver.Delete(s)
	var drained sync.WaitGroup
	defer drained.Wait()
	drained.Go(func() {
		s.drainAbandoned(ctx, full)
		end()
	})
	defer end()
	return runLease(ctx, lease, s)
}

// runLease forwards a shard until ctx is done or the lease is lost, and then ends the lease.
// It does not wait for a handler longer than rows are settled.
func runLease(ctx context.Context, lease Lease, s *sender) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-lease.Lost():
			cancel(errOver)
		case <-ctx.Done():
		}
	})
	release := sync.OnceFunc(lease.Release)
	defer release()
	late, end := pause.Outlive(ctx, 0, s.opt.Grace+StopTimeout/2)
	defer end()
	defer context.AfterFunc(late, release)()
	err := s.run(ctx)
	cancel(nil)
	watching.Wait()
	return err
}
