package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A recovery makes a database that was lost, or is older than the broker knows, whole
// again before anything is taken or fires.
//
//	database: Done, Seen of each log         broker: Acked, Delivered, Last of each log
//
//	log of commands  ──────────┬─────────────────────┬──────────────────┬──────►
//	                          Done                  Acked           Delivered
//	                           └─── read again, if Acked > Seen ────────┘
//
// Commands that the database has change nothing: the version of a command decides.
// Then the events that were published since are read: their timers are Reached, and do
// not fire again. Both may be interrupted, and begin again where they were.
type recovery struct {
	store          Store
	broker         broker.Broker
	handlers       *handlers.Handlers
	log            *slog.Logger
	role           string
	keep           time.Duration // how long timers are kept that are Reached
	clock          timer.Clock
	ask            bool                // end with an error instead
	sooner         func(due time.Time) // wakes the poller
	repairInterval time.Duration       // between two looks for damaged timers
	reason         string              // why it has to be, if that is known before
	awaiting       time.Time           // since when other instances are waited for
	done           Recovered

	progress atomic.Pointer[RecoveryProgress]

	mu       sync.Mutex
	replayed map[string]int64 // while a recovery is under way: the last command of each log that is in the database
}

func newRecovery(s Store, b broker.Broker, h *handlers.Handlers, sooner func(time.Time), log *slog.Logger, opt Options) *recovery {
	return &recovery{
		store: s, broker: b, handlers: h, log: log, role: opt.Role, keep: cmp.Or(opt.Retention, store.DefaultKeep), clock: opt.Clock, ask: opt.AskToRecover,
		sooner: sooner, repairInterval: opt.PollingInterval,
	}
}

// RecoveryProgress is how far a recovery is.
type RecoveryProgress struct {
	Recovered // so far

	Since time.Time
	Ahead int64 // numbers of the broker's logs of which commands are still to be read
}

// Recovery returns how far the recovery is that is under way, or nil.
func (a *App) Recovery() *RecoveryProgress { return a.recovery.progress.Load() }

// positions is what the store notes with each transaction.
func (r *recovery) positions() []timer.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replayed == nil {
		return r.broker.Positions(r.role)
	}
	noted := make([]timer.Position, 0, len(r.replayed))
	for log, number := range r.replayed {
		noted = append(noted, timer.Position{Log: log, Done: number})
	}
	return noted
}

// look returns what database and broker know of each other.
func (r *recovery) look(ctx context.Context) (s standing, err error) {
	if s.logs, err = r.broker.Logs(ctx, r.role); err != nil {
		return s, fmt.Errorf("find what the broker keeps: %w", err)
	}
	s.Noted, err = r.store.Noted(ctx)
	return s, err
}

// errAsk says that a recovery has to be asked for.
var errAsk = errors.New("run timer-service recover, or start with recover set to auto; timer-service recover --dry-run says what it would change")

// replaces reports whether the database is empty, and the commands belonged to one that
// was lost: no process takes them any more. Then a recovery is under way.
func (r *recovery) replaces(ctx context.Context, owner string) (bool, error) {
	used, err := r.broker.Used(ctx, r.role)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
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
	case r.ask && noted.Recovering.IsZero():
		return false, fmt.Errorf("%w: the database is empty, and the commands belong to %s: %w", timer.ErrFatal, owner, errAsk)
	}
	r.reason = "it is empty, and the commands belonged to " + owner
	return true, r.store.BeginRecovery(ctx, r.clock.Now())
}

// run recovers the database if it has to be. Begun is called before that begins.
func (r *recovery) run(ctx context.Context, begun func()) error {
	s, err := r.look(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		r.log.InfoContext(ctx, "the broker keeps no messages that were read: a lost database is recovered from a backup only")
		return nil
	}
	if err != nil {
		return err
	}
	reason := cmp.Or(r.reason, s.interrupted())
	if reason == "" {
		if reason, err = r.behind(ctx, s); err != nil || reason == "" {
			return err
		}
		if err := r.asked(ctx, reason); err != nil {
			return err
		}
	}
	begun()
	return r.store.Alone(ctx, func(ctx context.Context) error {
		s, err := r.look(ctx)
		if err == nil && s.Recovering.IsZero() { // not before: another instance may have recovered it
			if reason, err = r.behind(ctx, s); err != nil || reason == "" {
				return err
			}
			s.Recovering = r.clock.Now()
			err = r.store.BeginRecovery(ctx, s.Recovering)
		}
		if err != nil {
			return err
		}
		r.log.WarnContext(ctx, "the database is recovered from the broker", "reason", reason)
		return r.recover(ctx, s, reason)
	})
}

// behind returns why the database has to be recovered, or "" if it need not be. While
// another instance runs on it, it was looked at when that started. If it has become older
// since, under all that ran, each of them ends when it notices, and is waited for.
func (r *recovery) behind(ctx context.Context, s standing) (reason string, err error) {
	nodes, err := r.store.Nodes(ctx)
	if err != nil {
		return "", err
	}
	others := slices.ContainsFunc(nodes, func(n timer.Node) bool { return !n.Self })
	if reason = s.lost(); reason == "" {
		reason, err = r.rereadEvents(ctx, s, others)
	}
	if others && err == nil {
		return "", r.await(reason)
	}
	if reason == "" && err == nil {
		reason, err = r.rereadCommands(ctx, s)
	}
	if reason == "" && err == nil {
		err = r.goOn(ctx, s)
	}
	return reason, err
}

// othersEnd is within how long an instance ends that the database has become older under.
const othersEnd = 10 * time.Second

// await returns an error while other instances may be about to end, if there is a reason
// to recover. Those that still run after a while have found none: what was acked and is
// not in the database are dead letters.
func (r *recovery) await(reason string) error {
	if reason == "" {
		return nil
	}
	if r.awaiting.IsZero() {
		r.awaiting = time.Now()
	}
	if time.Since(r.awaiting) < othersEnd {
		return fmt.Errorf("other instances run on the database, and it may have to be recovered: %s: they end when they notice", reason)
	}
	return nil
}

// asked returns an error if a recovery has to be asked for, and would change something.
func (r *recovery) asked(ctx context.Context, reason string) error {
	if !r.ask {
		return nil
	}
	would, err := r.plan(ctx)
	if err != nil || would.Timers+would.Reached == 0 {
		return err
	}
	return fmt.Errorf("%w: the database has to be recovered: %s: %w", timer.ErrFatal, reason, errAsk)
}

// goOn begins with the database as it is. What a version before noted nothing of is taken
// to be in it. Of a log whose end the broker has lost less is noted than was.
func (r *recovery) goOn(ctx context.Context, s standing) error {
	var noted []timer.Position
	changed := false
	for _, p := range s.Positions {
		if s.remade(p.Log) {
			changed = true
			r.log.WarnContext(ctx, "the broker was emptied: its log was deleted and made again; the timers in the database stay as they are", "log", p.Log)
			continue
		}
		if l, ok := s.log(p.Log); ok && p.Seen > l.Last {
			changed = true
			r.log.WarnContext(ctx, "the broker has lost messages that the database knows; the timers in the database stay as they are", "log", p.Log, "seen", p.Seen, "last", l.Last)
			p.Done, p.Seen = min(p.Done, l.Last), l.Last
		}
		noted = append(noted, p)
	}
	if len(s.Positions) == 0 && !s.Empty {
		for _, l := range s.logs {
			noted, changed = append(noted, timer.Position{Log: l.Name, Done: l.Acked, Seen: l.Last}), true
		}
	}
	if !changed {
		return nil
	}
	return r.store.EndRecovery(ctx, noted)
}

// rereadEvents reads the events that were published after the database last noted
// something, and returns why it has to be recovered if their timers are not Reached
// there. If they are, as after a crash, the events leave the outbox: they need not be
// published again. Those of other instances are theirs to remove.
func (r *recovery) rereadEvents(ctx context.Context, s standing, others bool) (reason string, err error) {
	if len(s.Positions) == 0 {
		return "", nil
	}
	err = r.broker.Replay(ctx, r.role, broker.Events, s.Positions, func(batch []broker.Stored) error {
		events := eventsOf(batch)
		for _, e := range events {
			known, err := r.known(ctx, e.Key)
			if err != nil {
				return err
			}
			purged := known.State == "" && r.clock.Now().Sub(e.ReachedAt) > r.keep
			if known.State != timer.Reached && !purged && known.TimestampMS <= e.ReachedAt.Add(r.keep).UnixMilli() {
				reason = fmt.Sprintf("it is older than the broker knows: %s has fired since", e.Key)
				return errFired
			}
		}
		if others {
			return nil
		}
		_, err := r.store.Fired(ctx, r.keep, events...)
		return err
	})
	if errors.Is(err, errFired) {
		err = nil
	}
	return reason, err
}

// rereadCommands reads what was delivered after the database last noted something, and
// returns why it has to be recovered if more of that was acked than can have been while
// the database was written. What was not acked is delivered again anyway.
func (r *recovery) rereadCommands(ctx context.Context, s standing) (reason string, err error) {
	var from []timer.Position
	behind, pending := false, int64(0)
	for _, l := range s.logs {
		seen := s.at(l.Name).Seen
		from = append(from, timer.Position{Log: l.Name, Done: seen})
		behind, pending = behind || l.Delivered > seen, pending+l.Pending
	}
	if len(s.Positions) == 0 || !behind {
		return "", nil
	}
	read := int64(0)
	if err := r.commands(ctx, from, nil, func(_ map[string]int64, messages int, _ int64) { read += int64(messages) }); err != nil || read <= pending {
		return "", err
	}
	return fmt.Sprintf("it is older than the broker knows: at least %d commands were acked since", read-pending), nil
}

// errFired ends a replay.
var errFired = errors.New("a timer has fired that is not Reached")

// recover reads commands and events again. The store notes after each batch of commands
// how far that is.
func (r *recovery) recover(ctx context.Context, s standing, reason string) error {
	p := RecoveryProgress{Since: s.Recovering, Recovered: Recovered{Reason: reason}}
	p.Ahead = s.ahead(nil)
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
	r.replaying(make(map[string]int64))
	defer r.replaying(nil)
	if err := r.commands(ctx, s.Positions, nil, func(last map[string]int64, messages int, changed int64) {
		r.mu.Lock()
		maps.Copy(r.replayed, last)
		p.Ahead = s.ahead(r.replayed)
		r.mu.Unlock()
		p.Commands, p.Timers = p.Commands+int64(messages), p.Timers+changed
		report()
	}); err != nil {
		return err
	}
	r.replaying(nil)
	p.Ahead = 0
	read := make(map[string]int64)
	if err := r.events(ctx, s.withOutbox(), func(batch []broker.Stored, changed int) {
		ends(read, batch)
		p.Events, p.Reached = p.Events+int64(len(batch)), p.Reached+int64(changed)
		report()
	}); err != nil {
		return err
	}
	if err := r.store.EndRecovery(ctx, s.ends(read)); err != nil {
		return err
	}
	r.done = p.Recovered
	r.log.WarnContext(ctx, "the database was recovered from the broker", "commands", p.Commands, "timers", p.Timers,
		"events", p.Events, "reached", p.Reached, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// replaying begins to note how far commands are read again, or ends it.
func (r *recovery) replaying(from map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replayed = from
}
