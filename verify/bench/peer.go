package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/timer"
)

// A peer is a scheduler that the service is compared with. What it delivers goes to a sink.
type peer struct {
	sink   *sink
	usages func() (usages, error)
	rest   func(context.Context) error // waits, when all has come, until there is no work left; may be nil
	lead   time.Duration               // at least, until a timer is due
}

func (p peer) await(ctx context.Context) error {
	select {
	case <-p.sink.complete:
	case <-time.After(time.Minute):
		return errors.New("void: not all came within a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.rest == nil {
		return nil
	}
	return p.rest(ctx)
}

// drain gives a peer the work of [Drain]. Insert returns when the peer has all timers.
func (p peer) drain(ctx context.Context, opt Options, insert func(due time.Time) error) (r Result, err error) {
	due := timer.RoundUp(time.Now().Add(max(opt.Lead, p.lead)))
	before, err := p.usages()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := insert(due); err != nil {
		return r, err
	}
	accepted := time.Now()
	if !accepted.Before(due) {
		return r, errors.New("void: the last timer was accepted after the due time; give it a longer --lead")
	}
	between, err := p.usages()
	if err != nil {
		return r, err
	}
	if err := p.await(ctx); err != nil {
		return r, err
	}
	after, err := p.usages()
	if err != nil {
		return r, err
	}
	r = Result{
		Timers: opt.Timers, Accepted: rate(opt.Timers, accepted.Sub(began)), Delivered: rate(opt.Timers, p.sink.last().Sub(due)),
		IntakeCPU: between.since(before, opt.Timers), FiringCPU: after.since(between, opt.Timers),
	}
	r.Lateness, err = p.sink.judgePeer(due)
	return r, err
}

// steady gives a peer the work of [Steady]. Insert returns when the peer has all timers.
func (p peer) steady(ctx context.Context, opt Options, insert func(total int) error) (r Result, err error) {
	before, err := p.usages()
	if err != nil {
		return r, err
	}
	began, total := time.Now(), opt.steadyTimers()
	if err := insert(total); err != nil {
		return r, err
	}
	if err := p.await(ctx); err != nil {
		return r, err
	}
	after, err := p.usages()
	if err != nil {
		return r, err
	}
	r = Result{Timers: total, Rate: opt.Rate, CPU: after.since(before, total)}
	r.Lateness, err = p.sink.judgePeer(began.Add(warmUp + p.lead + leadMax))
	return r, err
}

// paced calls batch at a rate, each time with the numbers of the next timers: those from first to
// below next. What it returns sends them, and overlaps with the next batches.
func paced(ctx context.Context, rate int, more func(sent int) bool, batch func(now time.Time, first, next int) func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	began, pace := time.Now(), time.NewTicker(tick)
	defer pace.Stop()
	for sent := 0; more(sent) && ctx.Err() == nil; <-pace.C {
		now, first := time.Now(), sent
		for due := int(now.Sub(began).Seconds() * float64(rate)); sent < due && more(sent); {
			sent++
		}
		if sent > first {
			send := batch(now, first, sent)
			all.Go(func() error { return send(ctx) })
		}
	}
	return all.Wait()
}
