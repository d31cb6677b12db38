package inside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/bench/database"
)

// A Price is what one thing takes.
type Price struct {
	CPU  float64 `json:"cpu"`  // µs, of this process and of the database's server
	Wall float64 `json:"wall"` // µs, the median
}

// Costs are prices of what a service does.
type Costs struct {
	Alone    Price `json:"alone"`    // of a command that is scheduled alone
	Schedule Price `json:"schedule"` // of a command among a hundred
	NextDue  Price `json:"nextDue"`  // of reading when the next timer is due
	Fire     Price `json:"fire"`     // of a timer among a thousand that are Reached and emitted
	Forward  Price `json:"forward"`  // of an event among a thousand that are read and deleted
}

// CostOptions say what to measure. All fields must be given.
type CostOptions struct {
	Tenants int
	From    time.Time     // when the first of the scheduled timers is due
	Over    time.Duration // in which they are, in no order
}

// How often each thing is done.
const (
	alone         = 200
	scheduled     = 200
	scheduleBatch = 100
	nextDueCalls  = 2000
	fired         = 20
	fireBatch     = 1000
)

// Measure reports what the calls of a store cost. It leaves timers behind: as many
// that wait as it has scheduled.
func Measure(ctx context.Context, d database.Database, opt CostOptions) (c Costs, err error) {
	s, err := d.Open(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := maker{tenants: opt.Tenants}
	spread := func(int) time.Time { return opt.From.Add(rand.N(opt.Over)) }
	schedule := func(n int, due func(int) time.Time) error {
		now := time.Now()
		_, err := s.Schedule(ctx, now, m.commands(n, now, due)...)
		return err
	}
	began := time.Now()
	past := func(n int) time.Time { return began.Add(-time.Duration(n%3_600_000) * time.Millisecond) }

	if c.Alone, err = price(ctx, d, alone, 1, func() error { return schedule(1, spread) }); err != nil {
		return c, err
	}
	if c.Schedule, err = price(ctx, d, scheduled, scheduleBatch, func() error { return schedule(scheduleBatch, spread) }); err != nil {
		return c, err
	}
	if c.NextDue, err = price(ctx, d, nextDueCalls, 1, func() error { _, err := s.NextDue(ctx, time.Time{}); return err }); err != nil {
		return c, err
	}
	for range fired {
		if err := schedule(fireBatch, past); err != nil {
			return c, err
		}
	}
	if c.Fire, err = price(ctx, d, fired, fireBatch, func() error { return fire(ctx, s, began) }); err != nil {
		return c, err
	}
	c.Forward, err = price(ctx, d, fired, fireBatch, func() error { return forward(ctx, s) })
	return c, err
}

// fire fires a batch of what was due at a time.
func fire(ctx context.Context, s database.Store, now time.Time) error {
	return s.Update(ctx, func(tx timer.Tx) error {
		entries, err := tx.Reach(ctx, now, fireBatch, nil)
		if err != nil {
			return err
		}
		if len(entries) != fireBatch {
			return fmt.Errorf("%d of %d timers were reached", len(entries), fireBatch)
		}
		events := make([]timer.DueTimeReached, len(entries))
		for i, e := range entries {
			events[i] = e.Event()
		}
		return tx.Emit(ctx, events...)
	})
}

// forward takes a batch out of the outbox, without a broker.
func forward(ctx context.Context, s database.Store) error {
	rows, err := s.Head(ctx, 0, fireBatch)
	if err != nil {
		return err
	}
	if len(rows) != fireBatch {
		return fmt.Errorf("%d of %d events were in the outbox", len(rows), fireBatch)
	}
	places := make([]outbox.Place, len(rows))
	for i, row := range rows {
		places[i] = row.Place
	}
	return s.Delete(ctx, places...)
}

// price does something again and again, and returns what one of its n parts
// takes.
func price(ctx context.Context, d database.Database, times, n int, do func() error) (p Price, err error) {
	before, err := cpu(ctx, d)
	if err != nil {
		return p, err
	}
	took := make([]time.Duration, times)
	for i := range took {
		began := time.Now()
		if err := do(); err != nil {
			return p, err
		}
		took[i] = time.Since(began)
	}
	after, err := cpu(ctx, d)
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	return Price{CPU: us(after-before) / float64(times), Wall: us(took[times/2])}, err
}

// cpu is the CPU time that this process has used, and the database's server.
func cpu(ctx context.Context, d database.Database) (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, err
	}
	server, err := d.Usage(ctx)
	return time.Duration(r.Utime.Nano()+r.Stime.Nano()) + server, err
}
