package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// RetentionOptions tune a [Retention]. The zero value is ready to use.
type RetentionOptions struct {
	Keep  time.Duration // how long a timer is kept after it was Reached or Canceled; default 7 days
	Every time.Duration // pause between two sweeps; default 1h
	Batch int           // timers looked at in one step; default 500
	Pause time.Duration // pause between two steps of a sweep, so that others write meanwhile; default 10ms
}

// A Retention forgets timers that are over. Keep must exceed the longest time
// after which the broker may deliver a command again: a command whose timer is
// forgotten would make it anew.
type Retention struct {
	purger timer.Purger
	clock  timer.Clock
	log    *slog.Logger
	opt    RetentionOptions
}

// NewRetention returns a Retention. It starts nothing: call [Retention.Run].
func NewRetention(purger timer.Purger, clock timer.Clock, log *slog.Logger, opt RetentionOptions) *Retention {
	if opt.Keep <= 0 {
		opt.Keep = 7 * 24 * time.Hour
	}
	if opt.Every <= 0 {
		opt.Every = time.Hour
	}
	if opt.Batch <= 0 {
		opt.Batch = 500
	}
	if opt.Pause <= 0 {
		opt.Pause = 10 * time.Millisecond
	}
	return &Retention{purger: purger, clock: clock, log: log, opt: opt}
}

// Run sweeps now and then until ctx is done; then it returns nil. It returns an
// error only if that wraps [timer.ErrFatal]; after any other the sweep goes on
// later. A sweep that finds nothing writes nothing.
func (r *Retention) Run(ctx context.Context) error {
	for {
		deleted, err := r.sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			r.log.WarnContext(ctx, "retention failed, will retry", "error", err, "retry_in", r.opt.Every)
		case deleted > 0:
			r.log.InfoContext(ctx, "forgot timers that are over", "timers", deleted, "older_than", r.opt.Keep)
		}
		if !pause.For(ctx, r.opt.Every) {
			return nil
		}
	}
}

// sweep looks at every timer once, in small steps.
func (r *Retention) sweep(ctx context.Context) (deleted int, err error) {
	before := r.clock.Now().Add(-r.opt.Keep)
	for cursor := int64(0); ; {
		began := time.Now() //nolint:forbidigo // for the pace, not for timers
		n, next, err := r.purger.Purge(ctx, before, cursor, r.opt.Batch)
		deleted += n
		if err != nil || next == 0 {
			return deleted, err
		}
		cursor = next
		rest := r.opt.Pause
		if n == 0 {
			rest = max(rest, gentle*time.Since(began)) //nolint:forbidigo // as above
		}
		if !pause.For(ctx, rest) {
			return deleted, ctx.Err()
		}
	}
}

// gentle is how many times as long as a step that found nothing the pause after
// it is: a sweep over ten million waiting timers then takes a twentieth of a core
// for five minutes.
const gentle = 20
