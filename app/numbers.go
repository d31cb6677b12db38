package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// numbersInterval is the time between two questions how far the logs are settled.
const numbersInterval = 2 * time.Second

// A numberWriter writes how far the database is: at intervals it asks the broker, and writes
// the numbers that have changed in a transaction that begins after the answer. Then all that
// the numbers stand for was committed before.
//
// It asks only after something happened: a message was settled or published, or the broker was
// away. Other instances write the numbers of their own work.
type numberWriter struct {
	recovery *recovery
	log      *slog.Logger
	activity atomic.Int64 // how often something happened

	written numbers     // last written by this process
	failed  bool        // the last time, which was logged
	events  settledEnds // the outbox has none any more of the events up to them
	letters settledEnds // the commands before them are settled, of which dead letters were made
	settled int64       // the activity before the last question, if all was settled then; -1: it was not
}

// run writes numbers until ctx is done, and once more then.
func (w *numberWriter) run(ctx context.Context) error {
	if w.recovery.history == nil || w.recovery.brokerID.Load() == nil { // the broker keeps nothing, or can't tell who owns its commands
		<-ctx.Done()
		return nil
	}
	for {
		again := pause.For(ctx, numbersInterval)
		now := w.activity.Load() + w.recovery.away()
		if now == w.settled && again {
			continue
		}
		settled, err := w.writeUntilStop(ctx)
		if errors.Is(err, errHangs) {
			return nil
		}
		if w.settled = -1; settled && err == nil {
			w.settled = now
		}
		switch {
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil && again && !w.failed:
			w.log.WarnContext(ctx, "how far the database is was not written, will retry: until then a start reads more", "error", err)
		}
		if w.failed = err != nil; !again {
			return nil
		}
	}
}

// writeUntilStop writes numbers, and at a stop does not wait for a client that hangs in a call: it
// may hold a lock while it writes to a server that reads nothing.
func (w *numberWriter) writeUntilStop(ctx context.Context) (settled bool, _ error) {
	var did struct {
		settled bool
		err     error
	}
	late, cancel := pause.Outlive(ctx, 0, lastWriteTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(late, writeTimeout)
		defer cancel()
		did.settled, did.err = w.write(ctx)
	}()
	select {
	case <-done:
	case <-late.Done(): // the goroutine ends with the connection
	}
	if late.Err() != nil { // also if the client gave up at that moment: a second write would take as long
		return false, errHangs
	}
	return did.settled, did.err
}

// errHangs says that a write did not end before the stop.
var errHangs = errors.New("the client of the broker hangs")

// These bound a write of numbers, and how long a stop waits for one.
const (
	writeTimeout     = 2 * time.Second
	lastWriteTimeout = 300 * time.Millisecond
)

// write returns whether all commands were settled.
func (w *numberWriter) write(ctx context.Context) (settled bool, _ error) {
	began, id := w.recovery.clock.Now(), *w.recovery.brokerID.Load()
	logs, err := w.recovery.history.Logs(ctx, w.recovery.role)
	if err != nil {
		return false, ignore(err, broker.ErrUnavailable) // the connection logs the reason
	}
	if w.written.byLog == nil {
		known, err := w.recovery.db.Known(ctx)
		if err != nil {
			return false, err
		}
		w.written = newNumbers(id, known.Numbers)
	}
	left, err := w.recovery.db.Unpublished(ctx)
	if err != nil {
		return false, err
	}
	var next, all []timer.Number
	w.events.ask(broker.Events, began, logs)
	w.letters.ask(broker.DeadLetter, began, logs)
	settled = w.events.observe(began, left.IsZero() || left.After(w.events.at.Add(clockSkew)))
	settled = w.letters.observe(began, !slices.ContainsFunc(logs, func(l broker.Log) bool {
		return l.Kind == broker.Commands && l.Floor < w.letters.commands[l.Name]
	})) && settled
	for _, l := range logs {
		settled = settled && l.Floor >= l.Last
		n := timer.Number{Broker: id, Log: l.Name, Kind: timer.LogKind(l.Kind.String()), Number: l.Floor}
		before, known := w.written.of(l)
		switch l.Kind {
		case broker.Events:
			n.Number = max(before, w.events.done[l.Name])
		case broker.DeadLetter:
			n.Number = max(before, w.letters.done[l.Name])
		}
		switch {
		case known && before > l.Last:
			n.Number = l.Last
			w.events.forget(l)
			w.letters.forget(l)
			w.log.WarnContext(ctx, "the broker has lost messages that the database knows; the timers in the database stay as they are", "log", l.Name, "kind", l.Kind, "known", before, "last", l.Last)
		case known:
			w.recovery.sayGap(ctx, l, before)
			n.Number = max(n.Number, before)
			if missing := l.First - 1; l.Kind == broker.Commands && before < missing { // it is said once
				n.Number = max(n.Number, min(missing, l.Last))
			}
		}
		if all = append(all, n); !known || n.Number != before {
			next = append(next, n)
		}
	}
	if err := w.recovery.db.Advance(ctx, next...); err != nil {
		return false, err
	}
	for _, n := range next {
		w.written.byLog[logKey{n.Log, n.Kind}] = n.Number
	}
	w.recovery.history.Keep(all)
	return settled, nil
}

// settledEnds are ends of logs up to which every message has had its effect here. That is
// known some time after the ends were asked for. An event leaves the outbox a moment after it
// was published, and a copy of the database from between must read it. The dead letter of a
// command must be read as long as the command is.
type settledEnds struct {
	done     map[string]int64 // by log
	asked    map[string]int64 // the ends at a time
	commands map[string]int64 // the ends of the commands then
	at       time.Time        // zero: none are asked for
}

// clockSkew is how much the clocks of instances may differ.
const clockSkew = time.Second

// ask takes the ends of the logs of a kind that were asked for at a time, unless earlier ones
// are not settled yet.
func (e *settledEnds) ask(kind broker.Kind, at time.Time, logs []broker.Log) {
	if !e.at.IsZero() {
		return
	}
	e.at, e.asked, e.commands = at, make(map[string]int64), make(map[string]int64)
	for _, l := range logs {
		switch l.Kind {
		case kind:
			e.asked[l.Name] = l.Floor
		case broker.Commands:
			e.commands[l.Name] = l.Last
		}
	}
}

// observe notes whether the ends that were asked for are settled now. It returns whether these
// are the ends of the time given.
func (e *settledEnds) observe(at time.Time, settled bool) bool {
	if !settled {
		return false
	}
	current := e.at.Equal(at)
	e.done, e.at = e.asked, time.Time{}
	return current
}

// forget forgets the ends of a log that has lost its end: other messages will have those numbers.
func (e *settledEnds) forget(l broker.Log) {
	delete(e.done, l.Name)
	delete(e.asked, l.Name)
}

// numbers are the numbers of a broker.
type numbers struct {
	byLog map[logKey]int64
	ours  bool           // some were written for this broker
	all   []timer.Number // of all brokers
}

type logKey struct {
	log  string
	kind timer.LogKind
}

// newNumbers returns those of a broker, and those of an earlier version, which did not know its
// id. Without an id it returns all.
func newNumbers(brokerID string, all []timer.Number) numbers {
	n := numbers{byLog: make(map[logKey]int64), all: all}
	for _, of := range []string{"", brokerID} { // those of this broker win
		for _, at := range all {
			if at.Broker == of || brokerID == "" {
				n.byLog[logKey{at.Log, at.Kind}] = at.Number
				n.ours = n.ours || at.Broker != ""
			}
		}
	}
	return n
}

// of returns the number of a log.
func (n numbers) of(l broker.Log) (int64, bool) {
	number, found := n.byLog[logKey{l.Name, timer.LogKind(l.Kind.String())}]
	return number, found
}

// any reports whether the database has been used with the broker that has logs.
func (n numbers) any(logs []broker.Log) bool {
	return n.ours || slices.ContainsFunc(logs, func(l broker.Log) bool {
		_, found := n.of(l)
		return found
	})
}

// hadLogOf reports whether there is a number of an earlier log of the same name.
func (n numbers) hadLogOf(l broker.Log) bool {
	return slices.ContainsFunc(n.all, func(at timer.Number) bool { return at.Log != l.Name && prefix(at.Log) == prefix(l.Name) })
}
