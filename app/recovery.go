package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A recovery restores a database that was lost, or that is older than the broker knows,
// before a command is taken or a timer fires.
//
//	database: Committed, Observed of each log   broker: Acked, Delivered, Last of each log
//
//	log of commands  ──────────┬─────────────┬─────────────────────┬──────────►
//	                       Committed     Observed              Delivered
//	                           │             └─ verified: no effect ┤
//	                           └──────────── read again, if not ────┘
//
// At a start the recovery replays what the broker has above Observed, on a store that only
// remembers the changes. A command that the database has already changes nothing, since its
// version decides, and neither does an event whose timer is Reached. If something would
// change, the database is older than the broker knows. Then the recovery replays commands
// from Committed on, and the events after them, so that their timers do not fire again.
//
// It may be interrupted at any time: Observed rises at the end, so the next start finds what
// is missing and goes on from Committed.
type recovery struct {
	db       database
	history  broker.History // nil if the broker keeps nothing, which lacks says for people
	lacks    string
	handlers *handlers.Handlers
	log      *slog.Logger
	role     string
	keep     time.Duration // how long timers are kept that are Reached
	ask      bool          // end with an error instead
	reason   string        // why it has to be, if that is known before

	progress atomic.Pointer[RecoveryProgress] // nil if none is under way
}

// A database has the parts of a store that a recovery uses.
type database struct {
	timer.Commands
	timer.Recoverer
	timer.Operator
	timer.Reader
}

func newRecovery(s Store, b broker.Broker, h *handlers.Handlers, log *slog.Logger, opt Options) *recovery {
	r := &recovery{
		db: database{s, s.Recovery(), s.Operator(), s.Timers()}, handlers: h, log: log,
		role: opt.Role, keep: cmp.Or(opt.Retention, store.DefaultKeep), ask: opt.AskToRecover,
	}
	r.history, r.lacks = b.History()
	return r
}

// A RecoveryProgress says how far a recovery is.
type RecoveryProgress struct {
	Recovered       // so far
	Ahead     int64 // numbers of the broker's logs of which commands are still to be read
}

// Recovery returns the progress of the recovery that is under way, or nil.
func (a *App) Recovery() *RecoveryProgress { return a.recovery.progress.Load() }

// positions returns the positions that the store notes with each transaction. A recovery
// notes them itself.
func (r *recovery) positions() []timer.Position {
	if r.history == nil || r.progress.Load() != nil {
		return nil
	}
	return r.history.Positions(r.role)
}

// errAsk says that a recovery has to be asked for.
var errAsk = errors.New("run timer-service recover, or start with recover set to auto; timer-service recover --dry-run says what it would change")

// run verifies the database, and recovers it if that is needed. It does nothing if other
// instances run on the database, since they have verified it. It calls begun before it
// recovers.
func (r *recovery) run(ctx context.Context, begun func()) (done Recovered, err error) {
	err = r.db.Alone(ctx, func(ctx context.Context) error {
		c, reason, err := r.verify(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			r.log.InfoContext(ctx, "the broker keeps no messages that were read: a lost database is recovered from a backup only", "reason", r.lacks)
			return nil
		case err != nil:
			return err
		case reason == "":
			return r.goOn(ctx, c)
		case r.ask:
			return fmt.Errorf("%w: the database has to be recovered: %s: %w", timer.ErrFatal, reason, errAsk)
		}
		begun()
		done, err = r.recover(ctx, c, reason)
		return err
	})
	if err == nil {
		r.reason = "" // the next one has to find its own
	}
	return done, err
}

// again verifies the database for an instance that runs already, and changes nothing in it.
// If the database has to be recovered, the error wraps [timer.ErrFatal].
func (r *recovery) again(ctx context.Context) error {
	return r.db.Alone(ctx, func(ctx context.Context) error {
		_, reason, err := r.verify(ctx)
		if reason != "" {
			err = fmt.Errorf("%w: the database has to be recovered: %s: a restart recovers it", timer.ErrFatal, reason)
		}
		return ignore(err, errors.ErrUnsupported)
	})
}

// dryRun returns the numbers of a recovery, and changes nothing.
func (r *recovery) dryRun(ctx context.Context) (done Recovered, err error) {
	err = r.db.Alone(ctx, func(ctx context.Context) error {
		c, reason, err := r.verify(ctx)
		if err != nil || reason == "" {
			return err
		}
		done, err = r.replay(ctx, newDryStore(r.db), c.unread(), func(Recovered, broker.Kind, []broker.Stored) error { return nil })
		done.Reason = reason
		return err
	})
	return done, err
}

// errOlder ends the replay of [recovery.verify].
var errOlder = errors.New("it is older than the broker knows")

// verify compares the database with the broker, and returns why the database has to be
// recovered, or "" if it need not be. A command that was delivered and not acked may be in no
// database yet, so it proves nothing.
func (r *recovery) verify(ctx context.Context) (c comparison, reason string, err error) {
	c, err = r.compare(ctx)
	switch {
	case err != nil || r.reason != "":
		return c, r.reason, err
	case c.empty && c.acked() > 0:
		return c, "it is empty, and commands were acked", nil
	case len(c.noted) == 0 && (!c.empty || c.ahead() == 0): // nothing of this broker was noted, or delivered
		return c, "", nil
	}
	dry, pending := newDryStore(r.db), c.pending()
	_, err = r.replay(ctx, dry, c.unseen(), func(found Recovered, _ broker.Kind, _ []broker.Stored) error {
		acked := int64(len(dry.versions)) - pending
		switch {
		case found.Reached > 0 && len(c.noted) > 0: // else the events are those of another service
			reason = fmt.Sprintf("%v: timers have fired since that are not Reached in it", errOlder)
		case acked > 0:
			reason = fmt.Sprintf("%v: at least %d commands were acked since", errOlder, acked)
		default:
			return nil
		}
		return errOlder
	})
	return c, reason, ignore(err, errOlder)
}

// compare reads the positions of the logs at the broker and in the database. It asks the broker
// first: then all commands that the broker counts as acked are in the database, if that is
// complete, and their positions are noted there.
func (r *recovery) compare(ctx context.Context) (comparison, error) {
	if r.history == nil {
		return comparison{}, fmt.Errorf("%s: %w", r.lacks, errors.ErrUnsupported)
	}
	logs, err := r.history.Logs(ctx, r.role)
	if err != nil {
		return comparison{}, fmt.Errorf("find what the broker keeps: %w", err)
	}
	noted, err := r.db.Noted(ctx)
	return newComparison(noted, logs), err
}

// goOn begins with the database as it is. If the broker has lost the end of a log, the
// position that is noted moves back.
func (r *recovery) goOn(ctx context.Context, c comparison) error {
	changed := false
	for log, p := range c.noted {
		l, known := c.logs[log]
		switch {
		case c.remade(log):
			delete(c.noted, log)
			r.log.WarnContext(ctx, "the broker was emptied: its log was deleted and made again; the timers in the database stay as they are", "log", log)
		case known && p.Observed > l.Last:
			c.noted[log] = timer.Position{Log: log, Committed: min(p.Committed, l.Last), Observed: l.Last}
			r.log.WarnContext(ctx, "the broker has lost messages that the database knows; the timers in the database stay as they are", "log", log, "seen", p.Observed, "last", l.Last)
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return r.db.ReplacePositions(ctx, c.positions())
}

// recover reads commands and events again. After each batch of commands it notes how far
// they have been read.
func (r *recovery) recover(ctx context.Context, c comparison, reason string) (Recovered, error) {
	r.log.WarnContext(ctx, "the database is recovered from the broker", "reason", reason)
	began := time.Now()
	logged := began
	report := func(done Recovered, ahead int64) {
		p := &RecoveryProgress{done, ahead}
		r.progress.Store(p)
		if time.Since(logged) >= time.Second {
			logged = time.Now()
			r.log.InfoContext(ctx, "the database is being recovered", "commands", p.Commands, "events", p.Events, "left", p.Ahead, "took", time.Since(began).Round(time.Second))
		}
	}
	report(Recovered{}, c.ahead())
	defer r.progress.Store(nil)
	from := c.unread()
	c.begin()
	if err := r.db.ReplacePositions(ctx, c.positions()); err != nil {
		return Recovered{}, err
	}
	done, err := r.replay(ctx, r.db, from, func(done Recovered, kind broker.Kind, batch []broker.Stored) error {
		c.read(kind, batch)
		if kind != broker.Commands {
			report(done, 0)
			return nil
		}
		report(done, c.ahead())
		return r.db.ReplacePositions(ctx, c.positions())
	})
	if err != nil {
		return done, err
	}
	c.end()
	if err := r.db.ReplacePositions(ctx, c.positions()); err != nil {
		return done, err
	}
	done.Reason = reason
	r.log.WarnContext(ctx, "the database was recovered from the broker", "commands", done.Commands, "timers", done.Timers,
		"events", done.Events, "reached", done.Reached, "took", time.Since(began).Round(time.Millisecond))
	return done, nil
}

// A Recovered says what a recovery has done, or would do.
type Recovered struct {
	Reason   string // why the database is recovered; empty: it need not be, and nothing was done
	Commands int64  // that were read
	Timers   int64  // that they change
	Events   int64  // that were read
	Reached  int64  // timers that they change
}

// connectTimeout is how long Recover waits for the broker.
const connectTimeout = 15 * time.Second

// Recover recovers the database as [App.Run] does at its start, whatever
// [Options].AskToRecover says, and returns without taking a command or firing a timer.
// If dry it does the same, and says the same, but changes nothing. It needs [Options].RunBroker.
func (a *App) Recover(ctx context.Context, dry bool) (Recovered, error) {
	a.started.Store(true)
	var done Recovered
	err := a.withBroker(ctx, make(chan struct{}, 1), func() (err error) {
		done, err = a.recoverNow(ctx, dry)
		return err
	})
	return done, err
}

func (a *App) recoverNow(ctx context.Context, dry bool) (Recovered, error) {
	if err := a.store.Prepare(ctx); err != nil {
		return Recovered{}, fmt.Errorf("store: %w", err)
	}
	unlock, err := a.store.Lock(ctx)
	if err != nil {
		return Recovered{}, fmt.Errorf("store: %w", err)
	}
	defer func() { _ = unlock() }() // which the end of the process does, too
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := broker.AwaitReady(connecting, a.broker); err != nil {
		return Recovered{}, err
	}
	if _, err := a.recovery.compare(ctx); err != nil { // such as that the broker keeps nothing
		return Recovered{}, err
	}
	if dry {
		return a.recovery.dryRun(ctx)
	}
	a.recovery.ask = false
	if err := a.owner.claim(ctx); err != nil {
		return Recovered{}, err
	}
	return a.recovery.run(ctx, func() {})
}
