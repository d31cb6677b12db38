// Package store holds what is the same for every database: group commit
// ([Batch]) and retention ([Retention]). The databases themselves are in
// store/sqlite; store/storetest is their contract as tests.
package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// BatchOptions tune a [Batch]. The zero value is ready to use.
type BatchOptions struct {
	Limit int // commands a commit; default 2000
}

// A Batch is a [timer.Store] around a store that lets concurrent commands share
// a commit: those that arrive while one commit is being synced make up the next.
// A command alone is not delayed. There is no goroutine behind it: the caller
// who comes first commits for all who came, then hands over.
type Batch struct {
	timer.Store
	schedules group[timer.ScheduleTimer]
	cancels   group[timer.CancelTimer]
}

// NewBatch returns a Batch around a store.
func NewBatch(inner timer.Store, opt BatchOptions) *Batch {
	if opt.Limit <= 0 {
		opt.Limit = 2000
	}
	return &Batch{
		Store:     inner,
		schedules: group[timer.ScheduleTimer]{apply: inner.Schedule, limit: opt.Limit},
		cancels:   group[timer.CancelTimer]{apply: inner.Cancel, limit: opt.Limit},
	}
}

// Schedule applies commands, in a transaction that others may share. If ctx ends
// while they wait it returns at once; they may be applied all the same.
func (b *Batch) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	return b.schedules.do(ctx, now, commands)
}

// Cancel applies commands as Schedule does.
func (b *Batch) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	return b.cancels.do(ctx, now, commands)
}

// commitLimit bounds a transaction, which outlives the callers it is made for.
const commitLimit = 30 * time.Second

// A group gathers commands of one type.
type group[C any] struct {
	apply func(context.Context, time.Time, ...C) ([]timer.Outcome, error)
	limit int

	mu      sync.Mutex
	waiting []*call[C]
	led     bool // somebody commits
}

// A call is one caller's commands and what came of them.
type call[C any] struct {
	now      time.Time
	commands []C
	lead     chan struct{} // closed when the caller is to commit
	done     chan struct{} // closed when outcomes and err are set
	outcomes []timer.Outcome
	err      error
}

func (g *group[C]) do(ctx context.Context, now time.Time, commands []C) ([]timer.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &call[C]{now: now, commands: commands, lead: make(chan struct{}), done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	if !g.led {
		g.led = true
		close(c.lead)
	}
	g.mu.Unlock()

	select {
	case <-c.done:
	case <-c.lead:
		g.commit(ctx)
	case <-ctx.Done():
		select {
		case <-c.lead: // nobody else would
			g.commit(ctx)
		case <-c.done:
		default:
			g.leave(c)
			return nil, ctx.Err()
		}
	}
	return c.outcomes, c.err
}

// leave takes a caller out who gave up. If it was made the leader meanwhile, it
// makes another one.
func (g *group[C]) leave(c *call[C]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.waiting {
		if g.waiting[i] == c {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			break
		}
	}
	select {
	case <-c.lead:
		g.handOver()
	default:
	}
}

// handOver makes the longest waiting caller the leader.
func (g *group[C]) handOver() {
	if g.led = len(g.waiting) > 0; g.led {
		close(g.waiting[0].lead)
	}
}

// errPanicked is what callers get whose commit ended in a panic of its leader.
var errPanicked = errors.New("the shared commit panicked")

// commit applies what has gathered, the leader's own among it, and hands over.
func (g *group[C]) commit(ctx context.Context) {
	batch := g.take()
	defer func() { // also after a panic, else the others wait for ever
		for _, c := range batch {
			close(c.done)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.handOver()
	}()
	g.applyAll(context.WithoutCancel(ctx), batch)
}

// take removes the calls of the next commit: the first ones, up to the limit.
func (g *group[C]) take() []*call[C] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, commands := 0, 0
	for n < len(g.waiting) && (n == 0 || commands+len(g.waiting[n].commands) <= g.limit) {
		commands += len(g.waiting[n].commands)
		n++
	}
	batch := g.waiting[:n:n]
	g.waiting = append([]*call[C](nil), g.waiting[n:]...)
	return batch
}

// applyAll applies calls in one transaction. If one of them is invalid they are
// halved until it fails alone, which takes few transactions however many they
// are.
func (g *group[C]) applyAll(ctx context.Context, batch []*call[C]) {
	var commands []C
	now := batch[0].now
	for _, c := range batch {
		c.err = errPanicked // until it is known better
		commands = append(commands, c.commands...)
		if c.now.After(now) {
			now = c.now
		}
	}
	outcomes, err := g.applyWithin(ctx, now, commands)
	failpoint.Here("committed")
	if half := len(batch) / 2; half > 0 && errors.Is(err, timer.ErrInvalid) {
		g.applyAll(ctx, batch[:half])
		g.applyAll(ctx, batch[half:])
		return
	}
	for _, c := range batch {
		c.err = err
		if n := len(c.commands); err == nil {
			c.outcomes, outcomes = outcomes[:n:n], outcomes[n:]
		}
	}
}

func (g *group[C]) applyWithin(ctx context.Context, now time.Time, commands []C) ([]timer.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	return g.apply(ctx, now, commands...)
}
