package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// connectTimeout is how long Recover waits for the broker.
const connectTimeout = 15 * time.Second

// A Recovered is what a recovery has done, or would do.
type Recovered struct {
	Reason   string // why the database is recovered; empty: it need not be, and nothing was done
	Commands int64  // that were read
	Timers   int64  // that they change
	Events   int64  // that were read
	Reached  int64  // timers that they change
}

// Recover recovers the database as [App.Run] does at its start, whatever
// [Options].AskToRecover says, and returns without taking a command or firing a timer.
// If dry it only reads, and says what would change. It needs [Options].RunBroker.
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
	if dry {
		return a.recovery.plan(ctx)
	}
	if _, err := a.recovery.look(ctx); err != nil { // such as that the broker keeps nothing
		return Recovered{}, err
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

// plan returns what a recovery would do.
func (r *recovery) plan(ctx context.Context) (Recovered, error) {
	s, err := r.look(ctx)
	if err != nil {
		return Recovered{}, err
	}
	would := Recovered{Reason: cmp.Or(s.interrupted(), s.lost())}
	if err := r.planCommands(ctx, s, &would); err != nil {
		return would, err
	}
	err = r.broker.Replay(ctx, r.role, broker.Events, s.Positions, func(batch []broker.Stored) error {
		for _, e := range eventsOf(batch) {
			known, err := r.known(ctx, e.Key)
			if err != nil {
				return err
			}
			would.Events++
			if known.State != timer.Reached {
				would.Reached++
			}
		}
		return nil
	})
	if would.Reason == "" && would.Reached > 0 {
		would.Reason = fmt.Sprintf("it is older than the broker knows: %d timers have fired since", would.Reached)
	}
	return would, err
}

// planCommands adds what commands would change.
func (r *recovery) planCommands(ctx context.Context, s standing, would *Recovered) error {
	dead, err := r.deadLettered(ctx, s.Positions)
	if err != nil {
		return err
	}
	return r.broker.Replay(ctx, r.role, broker.Commands, s.Positions, func(batch []broker.Stored) error {
		commands, err := r.decode(ctx, batch, dead)
		if err != nil {
			return err
		}
		would.Commands += int64(len(batch))
		for _, d := range commands {
			changed, err := r.wouldChange(ctx, d)
			if err != nil {
				return err
			}
			would.Timers += changed
		}
		return nil
	})
}

// wouldChange returns how many timers commands would change.
func (r *recovery) wouldChange(ctx context.Context, d *decoded) (changed int64, err error) {
	for _, c := range d.schedules {
		known, err := r.known(ctx, c.Key)
		if err != nil {
			return changed, err
		}
		if known.ScheduleOutcome(c.Version) == 0 {
			changed++
		}
	}
	for _, c := range d.cancels {
		known, err := r.known(ctx, c.Key)
		if err != nil {
			return changed, err
		}
		if known.CancelOutcome(c.Version) == 0 {
			changed++
		}
	}
	return changed, nil
}

// known returns a timer, without a state if there is none.
func (r *recovery) known(ctx context.Context, key timer.Key) (timer.Entry, error) {
	e, err := r.store.Get(ctx, key)
	return e, ignore(err, timer.ErrNotFound)
}
