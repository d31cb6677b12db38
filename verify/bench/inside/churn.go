package inside

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/bench/machine"
)

// ChurnOptions say how to churn. All fields but OnLine must be given.
type ChurnOptions struct {
	Duration time.Duration
	Keep     time.Duration // how long what is over is kept
	Report   time.Duration // between two lines
	Tenants  int
	OnLine   func(Line) // called with each line as it comes
}

// A Line is what happened since the line before.
type Line struct {
	Seconds      float64         `json:"seconds"`      // since the beginning
	Fired        float64         `json:"fired"`        // timers a second
	Purged       float64         `json:"purged"`       // timers a second
	Over         int64           `json:"over"`         // timers that are over and not purged yet
	Outbox       int64           `json:"outbox"`       // events that wait
	SlowestPoll  float64         `json:"slowestPoll"`  // ms
	SlowestPurge float64         `json:"slowestPurge"` // ms
	Bytes        int64           `json:"bytes"`        // size of the database
	Parts        []database.Part `json:"parts,omitzero"`
	Load         float64         `json:"load"` // of the machine
}

const (
	feedBatch = 500
	feedAhead = 5000 // timers that are scheduled and not fired
)

// A churn is the parts of a service, as package app puts them together, but
// without a broker: commands come from here, and events go nowhere.
type churn struct {
	database database.Database
	store    database.Store
	opt      ChurnOptions
	poller   *poller.Poller
	out      *outbox.Forwarder

	scheduled, fired, purged  atomic.Int64
	slowestPoll, slowestPurge atomic.Int64 // nanoseconds, since the last line
}

// Churn schedules, fires, forwards and purges at full speed, and reports how the
// database fares.
func Churn(ctx context.Context, d database.Database, opt ChurnOptions) (lines []Line, err error) {
	s, err := d.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c := &churn{database: d, store: s, opt: opt}
	clock, log := timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler)
	c.out = outbox.New(s.Outbox(), nowhere{}, func(*message.Message) string { return "events" }, clock, log, outbox.Options{})
	c.poller = poller.New(s, clock, log, poller.Options{
		Full:    func() bool { return c.out.Waiting() >= fireBatch },
		Reached: c.reached,
		Polled:  func(took time.Duration, _ error) { slower(&c.slowestPoll, took) },
	})
	retention := store.NewRetention(c.Purge, clock, log, store.RetentionOptions{Keep: opt.Keep, Every: min(opt.Keep, time.Minute)})

	parts, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithTimeout(ctx, opt.Duration)
	defer stop()
	parts.Go(func() error { return c.out.Run(ctx) })
	parts.Go(func() error { return c.poller.Run(ctx) })
	parts.Go(func() error { return retention.Run(ctx) })
	parts.Go(func() error { return unlessEnded(ctx, c.feed(ctx)) })
	if w, ok := s.(interface{ Watch(context.Context) error }); ok {
		parts.Go(func() error { return w.Watch(ctx) })
	}
	parts.Go(func() error {
		var err error
		lines, err = c.report(ctx)
		return unlessEnded(ctx, err)
	})
	return lines, parts.Wait()
}

// unlessEnded returns an error, but for those of what was torn apart by the end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// feed schedules timers that are due at once, a little faster than they fire.
func (c *churn) feed(ctx context.Context) error {
	m := maker{tenants: c.opt.Tenants}
	for ctx.Err() == nil {
		if c.scheduled.Load()-c.fired.Load() >= feedAhead {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		now := time.Now()
		if _, err := c.store.Schedule(ctx, now, m.commands(feedBatch, now, func(int) time.Time { return now })...); err != nil {
			return err
		}
		c.scheduled.Add(feedBatch)
		c.poller.Sooner(now)
	}
	return nil
}

// reached counts what fired.
func (c *churn) reached(events []timer.DueTimeReached) {
	c.fired.Add(int64(len(events)))
	c.out.Appended(len(events))
}

// Purge counts what was purged.
func (c *churn) Purge(ctx context.Context, before time.Time, limit int) (int, error) {
	began := time.Now()
	n, err := c.store.Purge(ctx, before, limit)
	slower(&c.slowestPurge, time.Since(began))
	c.purged.Add(int64(n))
	return n, err
}

// slower keeps the longest time.
func slower(slowest *atomic.Int64, took time.Duration) {
	for {
		before := slowest.Load()
		if int64(took) <= before || slowest.CompareAndSwap(before, int64(took)) {
			return
		}
	}
}

// report makes a line now and then, until ctx is done.
func (c *churn) report(ctx context.Context) (lines []Line, err error) {
	tick := time.NewTicker(c.opt.Report)
	defer tick.Stop()
	began := time.Now()
	last, fired, purged := began, int64(0), int64(0)
	for {
		select {
		case <-ctx.Done():
			return lines, nil
		case <-tick.C:
		}
		now := time.Now()
		took := now.Sub(last).Seconds()
		l := Line{
			Seconds: now.Sub(began).Seconds(),
			Fired:   float64(c.fired.Load()-fired) / took, Purged: float64(c.purged.Load()-purged) / took,
			SlowestPoll: milliseconds(c.slowestPoll.Swap(0)), SlowestPurge: milliseconds(c.slowestPurge.Swap(0)),
			Load: machine.Load(),
		}
		last, fired, purged = now, c.fired.Load(), c.purged.Load()
		stats, err := c.store.Stats(ctx, "")
		if err != nil {
			return lines, err
		}
		l.Over, l.Outbox = stats.Reached+stats.Canceled, stats.Outbox
		if l.Bytes, l.Parts, err = c.database.Size(ctx); err != nil {
			return lines, err
		}
		lines = append(lines, l)
		if c.opt.OnLine != nil {
			c.opt.OnLine(l)
		}
	}
}

func milliseconds(ns int64) float64 { return float64(ns) / 1e6 }

// nowhere is a broker that takes everything and keeps nothing.
type nowhere struct{}

func (nowhere) Publish(_ context.Context, messages ...broker.Message) []error {
	return make([]error, len(messages))
}
