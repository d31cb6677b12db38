package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A recovery reads, at each start and before any command is taken or timer fires, the messages
// that the broker has above the numbers of the database:
//
//	                      number            floor        delivered          last
//	log of commands  ───────┼────────────────┼──────────────┼────────────────┼──►
//	                        │ taken before   │ handled as the handlers do    │
//	                        └────────────────┴──────────────► up to maxAhead ┘
//	log of events    ───────┼────────────────────────────────────────────────┼──►
//	                        └ their timers are Reached or Expired ───────────┘
//
// Nothing is compared. A command that the database has already changes nothing, since its
// version decides, and neither does an event whose timer is Reached. So a complete database
// stays as it is, and one that was lost, or replaced by an older copy, or that lacks exactly
// its last transaction, becomes complete by the same reading from lower numbers. A change by a
// command that was taken before, or by an event, is the proof that something was lost.
//
// It may be interrupted at any time: the numbers are written at its end.
type recovery struct {
	db       database
	inbox    timer.Inbox
	routing  broker.Routing
	history  broker.History // nil if the broker keeps nothing, which lacks says for people
	lacks    string
	handlers *handlers.Handlers
	quotas   *quota.Limiter
	clock    timer.Clock
	log      *slog.Logger
	role     string
	keep     time.Duration // how long timers are kept that are Reached
	ask      bool          // end with an error instead of a change

	progress atomic.Pointer[RecoveryProgress] // nil if none is under way
	brokerID atomic.Pointer[string]           // id of the broker, once the commands are claimed
	all      atomic.Pointer[int64]            // the interruptions of the broker before everything that it held was read; nil: it was not
	away     func() int64                     // how often the broker has been away
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
		db: database{s, s.Recovery(), s.Operator(), s.Timers()}, inbox: s.Inbox(), handlers: h, quotas: opt.Quotas, clock: opt.Clock, log: log,
		role: opt.Role, keep: cmp.Or(opt.Retention, store.DefaultKeep), ask: opt.AskToRecover, routing: b.Routing(),
	}
	r.history, r.lacks = b.History()
	r.away = func() int64 {
		n, _ := b.Interruptions()
		return n
	}
	return r
}

// A RecoveryProgress says how far a reading is.
type RecoveryProgress struct {
	Recovered       // so far
	Ahead     int64 // numbers of the broker's logs of which commands are still to be read
}

// Recovery returns the progress of the reading that is under way, or nil.
func (a *App) Recovery() *RecoveryProgress { return a.recovery.progress.Load() }

// readAll reports whether all that the broker held was read, and how often it had been away
// before.
func (r *recovery) readAll() (complete bool, interruptions int64) {
	if n := r.all.Load(); n != nil {
		return true, *n
	}
	return false, 0
}

// errAsk says that a change has to be asked for.
var errAsk = errors.New("run timer-service recover, or start with recover set to auto; timer-service recover --dry-run shows the messages that would be read")

// run reads the messages that the database lacks, for a broker with an id. It does nothing if other
// instances run on the database, since they have read it. It calls begun if that takes longer.
func (r *recovery) run(ctx context.Context, brokerID string, begun func()) (done Recovered, err error) {
	r.brokerID.Store(&brokerID)
	if r.history == nil {
		r.log.InfoContext(ctx, "the broker keeps no messages that were read: a lost database is recovered from a backup only", "reason", r.lacks)
		return done, nil
	}
	err = r.db.Alone(ctx, func(ctx context.Context) error {
		p, err := r.plan(ctx, brokerID)
		if err == nil {
			done, err = r.read(ctx, p, begun)
		}
		return err
	})
	return done, err
}

// maxAhead is how many numbers of the logs of commands are read, at most, of which nothing was
// delivered yet. If that is all, nothing has to be caught up with before timers fire.
const maxAhead = 20_000

// tellAfter is how many numbers a reading has ahead if it takes longer.
const tellAfter = 10_000

// A reading is the plan of a start: for each log and kind the messages behind one number, up to
// another.
type reading struct {
	broker        string // id of the broker
	spans         []span
	interruptions int64 // how often the broker had been away
}

// A span is the part of a log that is read.
type span struct {
	broker.Log
	from, upTo int64
	known      bool // the database has the number from
}

// plan decides which messages to read, and logs unusual logs: N5 and N6 of the numbers.
func (r *recovery) plan(ctx context.Context, brokerID string) (p reading, err error) {
	p.broker, p.interruptions = brokerID, r.away()
	logs, err := r.history.Logs(ctx, r.role)
	if err != nil {
		return p, fmt.Errorf("find the logs of the broker: %w", err)
	}
	known, err := r.db.Known(ctx)
	if err != nil {
		return p, err
	}
	numbers := newNumbers(brokerID, known.Numbers)
	anyLog := numbers.any(logs)
	for _, l := range logs {
		s := span{Log: l, upTo: l.Last}
		if l.Kind == broker.Commands {
			s.upTo = min(l.Last, l.Delivered+maxAhead)
		}
		number, found := numbers.of(l)
		switch {
		case found && number > l.Last:
			s.from = l.Last
			r.log.WarnContext(ctx, "the broker has lost messages that the database knows; the timers in the database stay as they are", "log", l.Name, "kind", l.Kind, "known", number, "last", l.Last)
		case found:
			s.from, s.known = number, true
			r.sayGap(ctx, l, number)
		case anyLog || known.Empty:
		default:
			s.from = l.Floor
			if l.Kind == broker.Commands && !numbers.hadLogOf(l) {
				r.log.WarnContext(ctx, "the database has not been used with this broker before: commands that it acknowledged before are not read", "log", l.Name, "from", l.Floor)
			}
		}
		if !found && l.Kind == broker.Commands && numbers.hadLogOf(l) {
			r.log.WarnContext(ctx, "the broker was emptied, or is another one: the database was used with another log of this name; the timers in the database stay as they are", "log", l.Name)
		}
		p.spans = append(p.spans, s)
	}
	return p, nil
}

// sayGap logs that commands may be missing: the log has lost messages above the number.
func (r *recovery) sayGap(ctx context.Context, l broker.Log, number int64) {
	missing := l.First - 1 - number
	if l.Kind != broker.Commands || missing <= 0 {
		return
	}
	log := r.log.With("log", l.Name, "messages", missing, "behind", number)
	if !l.Oldest.IsZero() {
		log = log.With("oldest_left", l.Oldest)
	}
	log.ErrorContext(ctx, "the broker has removed messages before they were read: commands among them are lost, unless their producers send them again")
}

// prefix returns the name of a log without the id that tells it from earlier ones.
func prefix(log string) string {
	name, _, _ := strings.Cut(log, "@")
	return name
}

// of returns the spans of a kind as arguments of [broker.History.Read], and the floors of their logs.
func (p reading) of(kind broker.Kind) (after, upTo, floors map[string]int64) {
	after, upTo, floors = make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for _, s := range p.spans {
		if s.Kind == kind {
			after[s.Name], upTo[s.Name], floors[s.Name] = s.from, s.upTo, s.Floor
		}
	}
	return after, upTo, floors
}

// ahead returns how many numbers of the logs of a kind are to be read.
func (p reading) ahead(kind broker.Kind) (n int64) {
	for _, s := range p.spans {
		if s.Kind == kind {
			n += s.upTo - s.from
		}
	}
	return n
}

// begin returns the numbers before the reading that the database does not have.
func (p reading) begin() []timer.Number {
	return p.numbers(func(s span) (int64, bool) { return s.from, !s.known })
}

// end returns the numbers after the reading. The broker delivers commands above the floor once
// more. Until then a selection among them must stay in the inbox, and the next start must read
// them, and the dead letters, again.
func (p reading) end() []timer.Number {
	unsettled := slices.ContainsFunc(p.spans, func(s span) bool { return s.Kind == broker.Commands && s.upTo > s.Floor })
	return p.numbers(func(s span) (int64, bool) {
		switch {
		case s.Kind == broker.Commands:
			return max(s.from, min(s.upTo, s.Floor)), true
		case s.Kind == broker.DeadLetter && unsettled:
			return s.from, true
		}
		return s.upTo, true
	})
}

func (p reading) numbers(of func(span) (number int64, wanted bool)) (numbers []timer.Number) {
	for _, s := range p.spans {
		if number, wanted := of(s); wanted {
			numbers = append(numbers, timer.Number{Broker: p.broker, Log: s.Name, Kind: timer.LogKind(s.Kind.String()), Number: number})
		}
	}
	return numbers
}

// read reads and applies: dead letters and marks, commands, events, and then writes the numbers.
func (r *recovery) read(ctx context.Context, p reading, begun func()) (Recovered, error) {
	began := time.Now()
	logged := began
	ahead := p.ahead(broker.Commands)
	report := func(done Recovered, left int64) {
		r.progress.Store(&RecoveryProgress{done, left})
		if time.Since(logged) >= time.Second {
			logged = time.Now()
			r.log.InfoContext(ctx, "reading messages that the database may lack", "commands", done.Commands, "events", done.Events, "left", left, "took", time.Since(began).Round(time.Second))
		}
	}
	if ahead+p.ahead(broker.Events)+p.ahead(broker.DeadLetter) > tellAfter {
		begun()
	}
	report(Recovered{}, ahead)
	defer r.progress.Store(nil)
	if r.ask {
		if err := r.verify(ctx, p); err != nil {
			return Recovered{}, err
		}
	}
	// An empty database that has something before its numbers are written would count as one that
	// has never been used with this broker.
	if err := r.db.Advance(ctx, p.begin()...); err != nil {
		return Recovered{}, err
	}
	done, err := r.replay(ctx, p, report)
	if err == nil {
		err = r.db.Advance(ctx, p.end()...)
	}
	if err != nil {
		return done, err
	}
	if !slices.ContainsFunc(p.spans, func(s span) bool { return s.upTo < s.Last }) { // that is all that the broker holds
		r.all.Store(&p.interruptions)
	}
	log, text := r.log.InfoContext, "read the messages that the broker has above the numbers of the database"
	switch {
	case done.Timers+done.Reached > 0:
		log, text = r.log.WarnContext, "the database was recovered from the broker: it lacked messages"
	case done.Commands+done.Events == 0:
		log = r.log.DebugContext
	}
	log(ctx, text, "commands", done.Commands, "timers", done.Timers, "events", done.Events, "reached", done.Reached, "took", time.Since(began).Round(time.Millisecond))
	return done, nil
}

// A Recovered counts the messages that a recovery has read, or would read.
type Recovered struct {
	Commands int64  // that were read
	Timers   int64  // changed by commands that had been taken before: the database had lost them
	Events   int64  // that were read
	Reached  int64  // timers that events changed: the database had lost that they fired
	Spans    []Span // parts of logs that would be read; only of a dry run
}

// A Span is the part of a log that a start would read.
type Span struct {
	Log   string
	Kind  broker.Kind
	From  int64     // behind this number
	UpTo  int64     // up to this one
	Since time.Time // when the first message was stored; zero if there is none
}

// connectTimeout is how long Recover waits for the broker.
const connectTimeout = 15 * time.Second

// Recover reads the messages that the database lacks as [App.Run] does at its start, whatever
// [Options].AskToRecover says, and returns without taking a command or firing a timer.
// If dry it only reports what it would read, and since when. It needs [Options].RunBroker.
func (a *App) Recover(ctx context.Context, dry bool) (Recovered, error) {
	a.started.Store(true)
	var done Recovered
	err := a.withBroker(ctx, make(chan struct{}, 1), func() (err error) {
		done, err = a.recoverNow(ctx, dry)
		return err
	})
	return done, err
}

func (a *App) recoverNow(ctx context.Context, dry bool) (done Recovered, err error) {
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
	r := a.recovery
	if r.history == nil {
		return Recovered{}, fmt.Errorf("%s: %w", r.lacks, errors.ErrUnsupported)
	}
	if dry {
		err = r.db.Alone(ctx, func(ctx context.Context) error {
			done, err = r.dryRun(ctx)
			return err
		})
		return done, err
	}
	r.ask = false
	if err := a.owner.claim(ctx); err != nil {
		return Recovered{}, err
	}
	return r.run(ctx, a.owner.me.Broker, func() {})
}

// dryRun returns the parts of logs that would be read.
func (r *recovery) dryRun(ctx context.Context) (done Recovered, err error) {
	p, err := r.plan(ctx, "")
	if err != nil {
		return done, err
	}
	for _, s := range p.spans {
		if s.from == s.upTo {
			continue
		}
		shown := Span{Log: s.Name, Kind: s.Kind, From: s.from, UpTo: s.upTo}
		errFirst := errors.New("the first is enough")
		if err := r.history.Read(ctx, s.Kind, map[string]int64{s.Name: s.from}, map[string]int64{s.Name: s.upTo}, func(batch []broker.Stored) error {
			shown.Since = batch[0].At
			return errFirst
		}); err != nil && !errors.Is(err, errFirst) {
			return done, err
		}
		if !shown.Since.IsZero() {
			done.Spans = append(done.Spans, shown)
		}
	}
	return done, nil
}
