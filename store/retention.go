package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// DefaultKeep is how long a finished timer is kept.
const DefaultKeep = 7 * 24 * time.Hour

// RetentionOptions tune a [Retention]. The zero value is ready to use.
type RetentionOptions struct {
	Keep time.Duration // how long a timer is kept after it was Reached, Expired or Canceled; default DefaultKeep

	// Reference is a second opinion on the time, which counts if it is earlier:
	// by a clock that is days ahead, timers would be deleted for which commands may
	// still come. It returns errors.ErrUnsupported if it never has one; default
	// none.
	Reference func(context.Context) (time.Time, error)
}

// A Retention deletes finished timers. Keep must exceed the longest time
// after which the broker may deliver a command again: a command whose timer is
// deleted would schedule it again.
type Retention struct {
	purge func(ctx context.Context, before time.Time, limit int) (deleted int, err error)
	clock timer.Clock
	log   *slog.Logger
	opt   RetentionOptions
}

// NewRetention returns a Retention that deletes with [timer.Operator]'s Purge. It starts
// nothing: call [Retention.Run].
func NewRetention(purge func(context.Context, time.Time, int) (int, error), clock timer.Clock, log *slog.Logger, opt RetentionOptions) *Retention {
	opt.Keep = option.Positive(opt.Keep, DefaultKeep)
	return &Retention{purge: purge, clock: clock, log: log, opt: opt}
}

const (
	sweepPause = time.Hour             // longest pause between two sweeps
	sweepSize  = 1000                  // timers deleted in one step
	stepPause  = 10 * time.Millisecond // pause between two steps of a sweep, so that others write meanwhile

	// busier is the factor by which a pause is shorter after a sweep that deleted timers:
	// less than a minute instead of an hour.
	busier = 64
)

// Run sweeps now and then until ctx is done; then it returns nil. It returns an
// error only if that wraps [timer.ErrFatal]; after any other the sweep goes on
// later. The pause is short after a sweep that found something, and doubles with
// each that did not. A sweep that finds nothing writes nothing.
func (r *Retention) Run(ctx context.Context) error {
	for rest := time.Duration(sweepPause / busier / 2); ; {
		deleted, err := r.sweep(ctx)
		if rest = min(2*rest, sweepPause); deleted > 0 {
			rest = sweepPause / busier
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			r.log.WarnContext(ctx, "retention failed, will retry", "error", err, "retry_in", rest)
		case deleted > 0:
			r.log.InfoContext(ctx, "deleted finished timers", "timers", deleted, "older_than", r.opt.Keep)
		}
		if !pause.For(ctx, rest) {
			return nil
		}
	}
}

// sweep deletes finished timers, in small steps.
func (r *Retention) sweep(ctx context.Context) (deleted int, err error) {
	now, err := r.now(ctx)
	if err != nil {
		return 0, err
	}
	before := now.Add(-r.opt.Keep)
	for {
		n, err := r.purge(ctx, before, sweepSize)
		deleted += n
		if err != nil || n < sweepSize {
			return deleted, err
		}
		if !pause.For(ctx, stepPause) {
			return deleted, ctx.Err()
		}
	}
}

// now returns the earlier of the times that the two clocks tell.
func (r *Retention) now(ctx context.Context) (time.Time, error) {
	now := r.clock.Now()
	if r.opt.Reference == nil {
		return now, nil
	}
	reference, err := r.opt.Reference(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return now, nil
	case err != nil:
		return now, fmt.Errorf("ask for the time: %w", err)
	case reference.Before(now):
		return reference, nil
	}
	return now, nil
}
