package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// connectTimeout is how long Recover waits for the broker.
const connectTimeout = 15 * time.Second

// A Recovered says what a recovery has done, or would do.
type Recovered struct {
	Reason   string // why the database is recovered; empty: it need not be, and nothing was done
	Commands int64  // that were read
	Timers   int64  // that they change
	Events   int64  // that were read
	Reached  int64  // timers that they change
}

// Recover recovers the database as [App.Run] does at its start, whatever
// [Options].AskToRecover says, and returns without taking a command or firing a timer.
// If dry it does the same, and says the same, but changes nothing. It needs [Options].RunBroker.
func (a *App) Recover(ctx context.Context, dry bool) (Recovered, error) {
	a.started.Store(true)
	died := make(chan struct{}, 1)
	b := start(ctx, died, "broker", a.broker.Run)
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerStopTimeout)
		defer cancel()
		_ = b.stop(stopping) // what it could say was said by those that use it
	}()
	if err := a.store.Prepare(ctx); err != nil {
		return Recovered{}, fmt.Errorf("store: %w", err)
	}
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := broker.AwaitReady(connecting, a.broker); err != nil {
		return Recovered{}, err
	}
	if _, err := a.recovery.compare(ctx); err != nil { // such as that the broker keeps nothing
		return Recovered{}, err
	}
	if dry {
		r := a.recovery.dry()
		err := r.run(ctx, func() {})
		return r.done, err
	}
	a.recovery.ask = false
	for began := time.Now(); ; {
		err := a.owner.claim(ctx)
		if err == nil {
			err = a.recovery.run(ctx, func() {})
			return a.recovery.done, err
		}
		if !errors.Is(err, errTaken) || time.Since(began) > sessionEnds || !pause.For(ctx, ownRetry) {
			return Recovered{}, err
		}
	}
}

// dry returns a recovery that does the same on a database which it does not change.
func (r *recovery) dry() *recovery {
	return &recovery{
		store: &dryStore{restored: r.store, timers: r.timers, changed: make(map[timer.Key]dryTimer)}, timers: r.timers, history: r.history, lacks: r.lacks, handlers: r.handlers,
		log: slog.New(slog.DiscardHandler), role: r.role, keep: r.keep, reason: r.reason,
	}
}
