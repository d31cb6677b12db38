// Package store holds the parts of a store that do not depend on the database. [Application]
// decides which timers a command changes. [Reader] and [Changer] run questions and changes of
// one statement. [Batch] lets commands share a commit, and [Retention] deletes finished timers.
// Export and import are here, too. The databases are in store/sqlite and store/postgres;
// store/storetest is their contract as tests.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// batchLimit is the most commands of a commit, unless one call has more.
const batchLimit = 2000

// A transaction outlives the context of the caller that began it, since others share it. These
// bound the transaction:
const (
	commitTimeout = 30 * time.Second // in any case
	stopTimeout   = time.Second      // after all callers were canceled, which means that the service stops
)

// A Batch is a [timer.Store] around a store that lets concurrent commands share a commit:
// the commands that arrive while one commit is being synced make up the next. Then it begins when
// the precision has passed since the one before began, so that more commands share it. A command
// that is alone is not delayed, nor are the commands of a caller that waits for each. The first
// caller begins a commit for all callers that wait, and after it one of the callers that came
// meanwhile does the same.
//
// A commit runs in a goroutine of its own, for which the store's Close waits. So a caller
// whose context ends can return at once. It must not wait for the commit: the commit may be
// waiting for a transaction that this caller has open.
type Batch struct {
	timer.Store
	schedules group[timer.ScheduleTimer]
	cancels   group[timer.CancelTimer]
	receipts  group[timer.Receipt]
	messages  group[timer.InboxMessage]
}

// NewBatch returns a Batch around a store and its inbox. While callers wait, commits of one kind
// begin at least a precision apart.
func NewBatch(inner timer.Store, inbox timer.Inbox, precision time.Duration) *Batch {
	slots := make(chan struct{}, maxAlone)
	return &Batch{
		Store:     inner,
		schedules: group[timer.ScheduleTimer]{apply: inner.Schedule, tenant: func(c timer.ScheduleTimer) timer.TenantID { return c.TenantID }, slots: slots, lead: make(chan struct{}, 1), precision: precision},
		cancels:   group[timer.CancelTimer]{apply: inner.Cancel, tenant: func(c timer.CancelTimer) timer.TenantID { return c.TenantID }, slots: slots, lead: make(chan struct{}, 1), precision: precision},
		receipts:  group[timer.Receipt]{apply: emitReceipts(inner), tenant: func(r timer.Receipt) timer.TenantID { return r.TenantID }, slots: slots, lead: make(chan struct{}, 1), precision: precision},
		messages:  group[timer.InboxMessage]{apply: putInbox(inbox), tenant: func(m timer.InboxMessage) timer.TenantID { return m.TenantID }, slots: slots, lead: make(chan struct{}, 1), precision: precision},
	}
}

// maxAlone is how many calls at once have a commit of their own. Calls that wait for a lock
// must leave connections to the poller and the forwarder.
const maxAlone = 2

// Alone is a [Batch] without sharing: each call has a commit of its own.
type Alone struct{ *Batch }

// Schedule applies commands in a transaction of their own.
func (a Alone) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return a.schedules.apart(ctx, now, commands)
}

// Cancel applies commands in a transaction of their own.
func (a Alone) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return a.cancels.apart(ctx, now, commands)
}

// Schedule applies commands, in a transaction that others may share. If ctx ends it returns
// at once; they may be applied all the same. After a [timer.ErrLocked], which any of them may
// have caused, each call is applied by itself.
func (b *Batch) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return b.schedules.do(ctx, now, commands)
}

// Cancel applies commands as Schedule does.
func (b *Batch) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return b.cancels.do(ctx, now, commands)
}

// Receipts appends receipts to the outbox, as Schedule applies commands.
func (b *Batch) Receipts(ctx context.Context, now time.Time, receipts ...timer.Receipt) error {
	_, err := b.receipts.do(ctx, now, receipts)
	return err
}

func emitReceipts(s timer.Store) func(context.Context, time.Time, ...timer.Receipt) ([]timer.Result, error) {
	return func(ctx context.Context, _ time.Time, receipts ...timer.Receipt) ([]timer.Result, error) {
		err := s.Update(ctx, func(tx timer.Tx) error { return tx.EmitReceipts(ctx, receipts...) })
		return make([]timer.Result, len(receipts)), err
	}
}

// PutInbox adds messages to the inbox, as Schedule applies commands.
func (b *Batch) PutInbox(ctx context.Context, now time.Time, messages ...timer.InboxMessage) error {
	_, err := b.messages.do(ctx, now, messages)
	return err
}

func putInbox(inbox timer.Inbox) func(context.Context, time.Time, ...timer.InboxMessage) ([]timer.Result, error) {
	return func(ctx context.Context, _ time.Time, messages ...timer.InboxMessage) ([]timer.Result, error) {
		return make([]timer.Result, len(messages)), inbox.PutInbox(ctx, messages...)
	}
}

// A group gathers commands of one type.
type group[C any] struct {
	apply  func(context.Context, time.Time, ...C) ([]timer.Result, error)
	tenant func(C) timer.TenantID
	slots  chan struct{} // holds one for each call that has a commit of its own
	lead   chan struct{} // holds one during a commit, and while the next one is delayed

	precision time.Duration

	mu      sync.Mutex
	waiting []*groupCall[C]
}

// A groupCall holds the commands of one caller, and their results.
type groupCall[C any] struct {
	now      time.Time
	commands []C
	end      <-chan struct{} // of the caller's context
	done     chan struct{}   // closed when results and err are set
	behind   int             // commands of its tenant that wait in front of it
	shared   bool            // the commit has other calls
	results  []timer.Result
	err      error
}

func (g *group[C]) do(ctx context.Context, now time.Time, commands []C) ([]timer.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &groupCall[C]{now: now, commands: commands, end: ctx.Done(), done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	for !c.isDone() {
		select {
		case <-c.done:
		case g.lead <- struct{}{}:
			go g.commit(ctx)
		case <-ctx.Done():
			return nil, g.leave(ctx, c)
		}
	}
	if c.shared && errors.Is(c.err, timer.ErrLocked) {
		return g.apart(ctx, now, commands)
	}
	return c.results, c.err
}

// isDone reports whether the call has its results, or its error.
func (c *groupCall[C]) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// apart applies commands in a transaction of their own.
func (g *group[C]) apart(ctx context.Context, now time.Time, commands []C) ([]timer.Result, error) {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
		return g.apply(ctx, now, commands...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave removes a caller whose context has ended, unless its commands are being applied.
func (g *group[C]) leave(ctx context.Context, c *groupCall[C]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, c); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return ctx.Err()
}

// errUnfinished is the error of callers if the goroutine of their commit ends early, by a panic.
var errUnfinished = errors.New("the shared commit did not finish")

// commit applies the waiting commands, up to the limit, in one transaction. Ctx is the context
// of the caller that began the commit. The commands of that caller are mostly among them, but
// the commit before may have applied them already. When it ends, another caller may begin one.
func (g *group[C]) commit(ctx context.Context) {
	began := time.Now() //nolint:forbidigo // for the pace, not for timers
	batch, commands := g.take()
	defer func() {
		panicked := recover()
		wait := g.delay(time.Since(began), commands) //nolint:forbidigo // as above; before callers may come again
		for _, c := range batch {
			if panicked != nil {
				c.err = fmt.Errorf("%w: panic: %v\n%s", errUnfinished, panicked, debug.Stack())
			}
			close(c.done)
		}
		if wait > 0 {
			time.AfterFunc(wait, func() { <-g.lead })
			return
		}
		<-g.lead
	}()
	if len(batch) == 0 {
		return
	}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		for _, c := range batch {
			select {
			case <-c.end:
			case <-commit.Done():
				return
			}
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			time.AfterFunc(stopTimeout, cancel)
		}
	})()
	g.applyAll(commit, batch, make([]C, 0, commands))
}

// take removes the calls of the next commit, up to the limit, and returns how many commands they
// have. Tenants share the limit: a call goes before others in front of which more commands of
// their own tenant wait.
func (g *group[C]) take() (batch []*groupCall[C], commands int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := make(map[timer.TenantID]int)
	for _, c := range g.waiting {
		if len(c.commands) > 0 {
			tenant := g.tenant(c.commands[0])
			c.behind = waiting[tenant]
			waiting[tenant] += len(c.commands)
		}
	}
	slices.SortStableFunc(g.waiting, func(a, b *groupCall[C]) int { return cmp.Compare(a.behind, b.behind) })
	n := 0
	for n < len(g.waiting) && (n == 0 || commands+len(g.waiting[n].commands) <= batchLimit) {
		commands += len(g.waiting[n].commands)
		n++
	}
	batch = g.waiting[:n:n]
	g.waiting = slices.Clone(g.waiting[n:])
	return batch, commands
}

// delay returns how long the next commit waits after one that took some time.
func (g *group[C]) delay(took time.Duration, commands int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 || commands >= batchLimit {
		return 0
	}
	return g.precision - took
}

// applyAll applies calls in one transaction, with the latest of their times.
func (g *group[C]) applyAll(ctx context.Context, batch []*groupCall[C], commands []C) {
	now := batch[0].now
	for _, c := range batch {
		c.err = errUnfinished // unless apply returns
		c.shared = len(batch) > 1
		commands = append(commands, c.commands...)
		if c.now.After(now) {
			now = c.now
		}
	}
	results, err := g.apply(ctx, now, commands...)
	failpoint.Here("committed")
	for _, c := range batch {
		c.err = err
		if n := len(c.commands); err == nil {
			c.results, results = results[:n:n], results[n:]
		}
	}
}
