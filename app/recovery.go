package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A recovery restores a database that was lost, or that is older than the broker knows,
// before a command is taken or a timer fires.
//
//	database: Committed, Observed of each log   broker: Acked, Delivered, Last of each log
//
//	log of commands  ──────────┬─────────────────────┬──────────────────┬──────►
//	                       Committed                Acked           Delivered
//	                           └── read again, if Acked > Observed ─────┘
//
// A command that the database has already changes nothing, since its version decides.
// After the commands the recovery reads the events that were published since: it marks
// their timers as Reached, so that they do not fire again. It may be interrupted at any
// time: until the end, when Observed rises, the database counts as older than the broker
// knows, and the next start goes on from Committed.
type recovery struct {
	store    restored
	timers   timer.Reader
	history  broker.History // nil if the broker keeps nothing, which lacks says for people
	lacks    string
	handlers *handlers.Handlers
	log      *slog.Logger
	role     string
	keep     time.Duration // how long timers are kept that are Reached
	ask      bool          // end with an error instead
	reason   string        // why it has to be, if that is known before
	done     Recovered

	marks    marks // of the recovery that is under way
	progress atomic.Pointer[RecoveryProgress]

	mu       sync.Mutex
	replayed map[string]int64 // while a recovery is under way: the last command of each log that is in the database
}

// A restored is what a recovery changes.
type restored interface {
	timer.Commands
	timer.Recoverer
	List(ctx context.Context, f timer.Filter) (timer.Page, error)
	PauseFiring(ctx context.Context, p timer.Pause) error
	ResumeFiring(ctx context.Context, tenant timer.TenantID) error
}

func newRecovery(s Store, b broker.Broker, h *handlers.Handlers, log *slog.Logger, opt Options) *recovery {
	all := struct {
		timer.Commands
		timer.Recoverer
		timer.Operator
		timer.Reader
	}{s, s.Recovery(), s.Operator(), s.Timers()}
	r := &recovery{store: all, timers: s.Timers(), handlers: h, log: log, role: opt.Role, keep: cmp.Or(opt.Retention, store.DefaultKeep), ask: opt.AskToRecover}
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

// positions returns the positions that the store notes with each transaction.
func (r *recovery) positions() []timer.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history == nil {
		return nil
	}
	if r.replayed == nil {
		return r.history.Positions(r.role)
	}
	noted := make([]timer.Position, 0, len(r.replayed))
	for log, number := range r.replayed {
		noted = append(noted, timer.Position{Log: log, Committed: number})
	}
	return noted
}

// compare returns what the database and the broker know of each other. It asks the broker
// first: what the broker counts as acked by then is in the database, and noted there.
func (r *recovery) compare(ctx context.Context) (c comparison, err error) {
	if r.history == nil {
		return c, fmt.Errorf("%s: %w", r.lacks, errors.ErrUnsupported)
	}
	if c.logs, err = r.history.Logs(ctx, r.role); err != nil {
		return c, fmt.Errorf("find what the broker keeps: %w", err)
	}
	c.Noted, err = r.store.Noted(ctx)
	return c, err
}

// errAsk says that a recovery has to be asked for.
var errAsk = errors.New("run timer-service recover, or start with recover set to auto; timer-service recover --dry-run says what it would change")

// replaces reports whether the database is empty and the commands belonged to a database
// that was lost: no process takes them any more.
func (r *recovery) replaces(ctx context.Context, owner string) (bool, error) {
	if r.history == nil {
		return false, nil
	}
	used, err := r.history.Used(ctx, r.role)
	if err != nil {
		return false, err
	}
	noted, err := r.store.Noted(ctx)
	if err != nil || !noted.Empty {
		return false, err
	}
	switch {
	case used:
		return false, errTaken
	case r.ask:
		return false, fmt.Errorf("%w: the database is empty, and the commands belong to %s: %w", timer.ErrFatal, owner, errAsk)
	}
	r.reason = "it is empty, and the commands belonged to " + owner
	return true, nil
}

// run verifies the database, and recovers it if that is needed. It does nothing if other
// instances run on the database, since they have verified it. It calls begun before it
// recovers.
func (r *recovery) run(ctx context.Context, begun func()) error {
	return r.store.Alone(ctx, func(ctx context.Context) error {
		c, reason, err := r.verify(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			r.log.InfoContext(ctx, "the broker keeps no messages that were read: a lost database is recovered from a backup only", "reason", r.lacks)
			return nil
		case err != nil:
			return err
		case reason == "":
			return r.goOn(ctx, c)
		}
		if err := r.asked(ctx, c, reason); err != nil {
			return err
		}
		begun()
		r.log.WarnContext(ctx, "the database is recovered from the broker", "reason", reason)
		return r.recover(ctx, c, reason)
	})
}

// again verifies the database for an instance that runs already, and changes nothing in it.
// If the database has to be recovered, the error wraps [timer.ErrFatal].
func (r *recovery) again(ctx context.Context) error {
	return r.store.Alone(ctx, func(ctx context.Context) error {
		c, reason, err := r.dry().verify(ctx)
		if err != nil || reason == "" {
			return ignore(err, errors.ErrUnsupported)
		}
		older, err := r.changes(ctx, c, reason)
		if err == nil && older {
			err = fmt.Errorf("%w: the database has to be recovered: %s: a restart recovers it", timer.ErrFatal, reason)
		}
		return err
	})
}

// verify returns why the database has to be recovered, or "" if it need not be.
func (r *recovery) verify(ctx context.Context) (c comparison, reason string, err error) {
	if c, err = r.compare(ctx); err != nil {
		return c, "", err
	}
	if reason = cmp.Or(r.reason, c.older()); reason == "" {
		reason, err = r.rereadEvents(ctx, c)
	}
	if reason == "" && err == nil {
		reason, err = r.rereadCommands(ctx, c)
	}
	return c, reason, err
}

// asked returns an error if a recovery has to be asked for, and would change something.
func (r *recovery) asked(ctx context.Context, c comparison, reason string) error {
	if !r.ask {
		return nil
	}
	if changes, err := r.changes(ctx, c, reason); err != nil || !changes {
		return err
	}
	return fmt.Errorf("%w: the database has to be recovered: %s: %w", timer.ErrFatal, reason, errAsk)
}

// changes reports whether a recovery would change more timers than there are commands that
// were delivered and not acked. Those are in no database yet.
func (r *recovery) changes(ctx context.Context, c comparison, reason string) (bool, error) {
	dry := r.dry()
	err := dry.recover(ctx, c, reason)
	return dry.done.Timers > c.pending() || dry.done.Reached > 0, err
}

// goOn begins with the database as it is. Logs of which nothing was noted are taken to be
// in it. If the broker has lost the end of a log, the position that is noted moves back.
func (r *recovery) goOn(ctx context.Context, c comparison) error {
	var noted []timer.Position
	changed := false
	for _, p := range c.Positions {
		if c.remade(p.Log) {
			changed = true
			r.log.WarnContext(ctx, "the broker was emptied: its log was deleted and made again; the timers in the database stay as they are", "log", p.Log)
			continue
		}
		if l, ok := c.log(p.Log); ok && p.Observed > l.Last {
			changed = true
			r.log.WarnContext(ctx, "the broker has lost messages that the database knows; the timers in the database stay as they are", "log", p.Log, "seen", p.Observed, "last", l.Last)
			p.Committed, p.Observed = min(p.Committed, l.Last), l.Last
		}
		noted = append(noted, p)
	}
	if len(c.Positions) == 0 && !c.Empty {
		for _, l := range c.logs {
			noted, changed = append(noted, timer.Position{Log: l.Name, Committed: l.Acked, Observed: l.Last}), true
		}
	}
	if !changed {
		return nil
	}
	return r.store.ReplacePositions(ctx, noted)
}

// rereadEvents reads the events that were published after the database last noted a
// position. If the timer of one is not Reached in the database, it returns why the database
// has to be recovered. Else, as after a crash, it removes the events from the outbox, so
// that they are not published again.
func (r *recovery) rereadEvents(ctx context.Context, c comparison) (reason string, err error) {
	if len(c.Positions) == 0 {
		return "", nil
	}
	dry := r.dry().store
	err = broker.Replay(ctx, r.history, r.role, broker.Events, c.Positions, func(batch []broker.Stored) error {
		events := eventsOf(batch)
		if changed, err := dry.Fired(ctx, r.keep, events...); err != nil || changed > 0 {
			reason = "it is older than the broker knows: timers have fired since that are not Reached in it"
			return cmp.Or(err, errFired)
		}
		_, err := r.store.Fired(ctx, r.keep, events...)
		return err
	})
	if errors.Is(err, errFired) {
		err = nil
	}
	return reason, err
}

// rereadCommands reads the commands that were delivered after the database last noted a
// position. If more of them were acked than can have been acked since the last write of the
// database, it returns why the database has to be recovered. Commands that were not acked
// are delivered again anyway.
func (r *recovery) rereadCommands(ctx context.Context, c comparison) (reason string, err error) {
	var from []timer.Position
	behind, pending := false, int64(0)
	for _, l := range c.logs {
		seen := c.at(l.Name).Observed
		from = append(from, timer.Position{Log: l.Name, Committed: seen})
		behind, pending = behind || l.Delivered > seen, pending+l.Pending
	}
	if len(c.Positions) == 0 && !c.Empty || !behind {
		return "", nil
	}
	read := int64(0)
	if err := broker.Replay(ctx, r.history, r.role, broker.Commands, from, func(batch []broker.Stored) error {
		read += int64(len(batch))
		return nil
	}); err != nil || read <= pending {
		return "", err
	}
	return fmt.Sprintf("it is older than the broker knows: at least %d commands were acked since", read-pending), nil
}

// errFired ends a replay.
var errFired = errors.New("a timer has fired that is not Reached")

// recover reads commands and events again. After each batch of commands the store notes how
// far they have been read.
func (r *recovery) recover(ctx context.Context, c comparison, reason string) error {
	p := RecoveryProgress{Recovered: Recovered{Reason: reason}}
	p.Ahead = c.ahead(nil)
	began := time.Now()
	logged := began
	report := func() {
		now := p
		r.progress.Store(&now)
		if time.Since(logged) >= time.Second {
			logged = time.Now()
			r.log.InfoContext(ctx, "the database is being recovered", "commands", p.Commands, "events", p.Events, "left", p.Ahead, "took", time.Since(began).Round(time.Second))
		}
	}
	report()
	defer r.progress.Store(nil)
	if len(c.Positions) == 0 { // without any, a database that is not empty counts as complete
		if err := r.store.ReplacePositions(ctx, c.none()); err != nil {
			return err
		}
	}
	r.replaying(make(map[string]int64))
	defer r.replaying(nil)
	if err := r.commands(ctx, c.Positions, func(last map[string]int64, messages int, changed int64) {
		r.mu.Lock()
		maps.Copy(r.replayed, last)
		p.Ahead = c.ahead(r.replayed)
		r.mu.Unlock()
		p.Commands, p.Timers = p.Commands+int64(messages), p.Timers+changed
		report()
	}); err != nil {
		return err
	}
	r.replaying(nil)
	p.Ahead = 0
	read := make(map[string]int64)
	if err := r.events(ctx, c.withOutbox(), func(batch []broker.Stored, changed int) {
		ends(read, batch)
		p.Events, p.Reached = p.Events+int64(len(batch)), p.Reached+int64(changed)
		report()
	}); err != nil {
		return err
	}
	if err := r.pauseAgain(ctx); err != nil {
		return err
	}
	if err := r.store.ReplacePositions(ctx, c.ends(read)); err != nil {
		return err
	}
	r.done, r.reason = p.Recovered, ""
	r.log.WarnContext(ctx, "the database was recovered from the broker", "commands", p.Commands, "timers", p.Timers,
		"events", p.Events, "reached", p.Reached, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// replaying sets the positions up to which commands have been read again, or with nil ends
// the noting of them.
func (r *recovery) replaying(from map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replayed = from
}

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
		_ = b.stop(stopping) // the parts that use the broker have returned its errors
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
