package app_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A world is the app, what it stands on, and what is known from outside.
type world struct {
	t        *testing.T
	path     string
	opt      app.Options
	broker   *simBroker
	failures *failures

	wrong atomic.Int64 // how far the service's clock is ahead of the bubble, in nanoseconds
	leaps []time.Time  // when the clock was set
	shown time.Time    // the latest that the clock showed before it was set

	sent    []sentCommand
	byKey   map[timer.Key][]sentCommand
	lastDue time.Time         // of the timer scheduled last
	poison  map[string]poison // by message id
	faulty  bool              // calls failed, or the process crashed

	checked     int                       // events checked so far
	deadChecked int                       // dead letters checked so far
	replayed    map[*simCommand]bool      // commands that were dead letters, over a quota
	first       map[string]simEvent       // the first publish of each event id
	fired       map[timer.Key]string      // the event id of each key
	marked      map[timer.Key]timer.State // what the event of each key says

	quotas  *quota.Config // of tenants; nil: none was ever set
	limiter *quota.Limiter

	pauses bool // people pause firing now and then

	store *sqlite.Store
	app   *app.App
	end   context.CancelFunc
	ended sync.WaitGroup
	died  error
}

type sentCommand struct {
	schedule *timer.ScheduleTimer
	cancel   *timer.CancelTimer
	*simCommand
}

func (c sentCommand) key() timer.Key {
	if c.schedule != nil {
		return c.schedule.Key
	}
	return c.cancel.Key
}

func (c sentCommand) version() timer.Version {
	if c.schedule != nil {
		return c.schedule.Version
	}
	return c.cancel.Version
}

func newWorld(t *testing.T, f *failures, opt app.Options) *world {
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "timers.db"), opt: opt,
		broker: newSimBroker(f.seed, f.decide), failures: f, faulty: f.oneIn+f.crashIn+f.nth > 0,
		byKey: make(map[timer.Key][]sentCommand), poison: make(map[string]poison),
		first: make(map[string]simEvent), fired: make(map[timer.Key]string), marked: make(map[timer.Key]timer.State), replayed: make(map[*simCommand]bool),
	}
	w.opt.Clock = timer.ClockFunc(w.clock)
	return w
}

// clock is the service's.
func (w *world) clock() time.Time { return time.Now().Add(time.Duration(w.wrong.Load())) }

// step sets the service's clock. By is how far it is ahead of the bubble's then.
func (w *world) step(by time.Duration) {
	if now := w.clock(); now.After(w.shown) {
		w.shown = now
	}
	w.wrong.Store(int64(by))
	w.leaps = append(w.leaps, time.Now())
}

func (w *world) start() {
	if err := newDatabase(w.path); err != nil {
		w.t.Fatal(err)
	}
	s, err := sqlite.Open(w.t.Context(), w.path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	if w.quotas != nil {
		if w.limiter, err = quota.New(*w.quotas, w.opt.Clock, quota.Options{}); err != nil {
			w.t.Fatal(err)
		}
		w.opt.Quotas = w.limiter
	}
	a, err := app.New(&fault.Store{Full: s, Decide: w.failures.decide}, w.broker, quiet, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(w.t.Context())
	w.end, w.app = end, a
	w.ended.Go(func() {
		if err := a.Run(ctx); err != nil {
			w.died = err
		}
	})
}

func (w *world) stop() {
	w.end()
	w.ended.Wait()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// revive starts the process again if it crashed.
func (w *world) revive() {
	if !w.failures.isDead() {
		return
	}
	w.faulty = true
	w.stop()
	w.failures.die(false)
	w.start()
}

func (w *world) schedule(c timer.ScheduleTimer) {
	w.lastDue = c.DueAt
	if len(w.sent)%2 == 1 {
		c.Data = fmt.Sprintf("[ %q ]", c.CommandID)
	}
	w.remember(sentCommand{schedule: &c, simCommand: w.broker.send(message.NewMessage(c.CommandID, envelope.Schedule(c)))})
}

func (w *world) cancel(c timer.CancelTimer) {
	w.remember(sentCommand{cancel: &c, simCommand: w.broker.send(message.NewMessage(c.CommandID, envelope.Cancel(c)))})
}

func (w *world) remember(c sentCommand) {
	w.sent = append(w.sent, c)
	w.byKey[c.key()] = append(w.byKey[c.key()], c)
}

// invariants checks what must hold at every time, on what was published since
// the last check.
func (w *world) invariants() error {
	if w.died != nil {
		return fmt.Errorf("the app died: %w", w.died)
	}
	events, deadLetters := w.broker.publishedSince(w.checked, w.deadChecked)
	w.replay(deadLetters)
	for _, e := range events {
		m, err := envelope.Decode(e.msg.Payload)
		if err != nil {
			return fmt.Errorf("published what does not decode: %w", err)
		}
		event, ok := m.Payload.(timer.DueTimeReached)
		if expired, is := m.Payload.(timer.TimerExpired); is {
			event, ok = expired.Event(), true
		}
		if !ok {
			return fmt.Errorf("published a %s", m.Type)
		}
		if err := w.checkEvent(e, event); err != nil {
			return fmt.Errorf("event %s of %s: %w", event.ID, event.Key, err)
		}
	}
	for _, dead := range deadLetters {
		if err := w.checkDead(dead); err != nil {
			return fmt.Errorf("dead letter %s: %w: %v", dead.UUID, err, dead.Metadata)
		}
	}
	w.checked += len(events)
	w.deadChecked += len(deadLetters)
	return nil
}

func (w *world) checkEvent(e simEvent, event timer.DueTimeReached) error {
	if event.ReachedAt.Before(event.DueAt) {
		return fmt.Errorf("early: reached at %v, due at %v", event.ReachedAt, event.DueAt)
	}
	if shown := e.at.Add(time.Duration(w.wrong.Load())); event.DueAt.After(shown) && event.DueAt.After(w.shown) {
		return fmt.Errorf("early: published at %v by the service's clock, due at %v", shown, event.DueAt)
	}
	if e.msg.UUID != event.ID {
		return fmt.Errorf("the broker's dedupe id is %s", e.msg.UUID)
	}
	if want := simRouting.EventsOf(event.TenantID); e.msg.Metadata.Get("topic") != want {
		return fmt.Errorf("went to %s, want %s", e.msg.Metadata.Get("topic"), want)
	}
	if first, again := w.first[event.ID]; again {
		if string(first.msg.Payload) != string(e.msg.Payload) {
			return fmt.Errorf("the same id with another body:\n%s\n%s", first.msg.Payload, e.msg.Payload)
		}
		if !w.faulty {
			return errors.New("published twice, though nothing failed")
		}
	} else {
		w.first[event.ID] = e
	}
	if id, fired := w.fired[event.Key]; fired && id != event.ID {
		return fmt.Errorf("the key fired before, as %s", id)
	}
	w.fired[event.Key] = event.ID
	w.marked[event.Key] = event.State()
	return w.checkCause(event)
}

// checkCause checks that an event was asked for, by the newest command.
func (w *world) checkCause(event timer.DueTimeReached) error {
	commands := w.byKey[event.Key]
	cause := slices.IndexFunc(commands, func(c sentCommand) bool {
		return c.schedule != nil && c.schedule.DueAt.Equal(event.DueAt) && c.schedule.ExpiresAt.Equal(event.ExpiresAt) &&
			c.schedule.CorrelationID == event.CorrelationID && c.schedule.Data == event.Data
	})
	if cause < 0 {
		return errors.New("invented: no command has its times, correlation and data")
	}
	for _, c := range commands {
		if c.version().Compare(commands[cause].version()) > 0 && w.ackedBefore(c, event.ReachedAt) {
			return fmt.Errorf("superseded by %s before it was reached", c.version().CommandID)
		}
	}
	return nil
}

// ackedBefore reports whether a command was acked before a time of the
// service's clock. The two can be compared only if the clock did not leap from a
// while before the ack on: no event waits longer for its publication.
func (w *world) ackedBefore(c sentCommand, reached time.Time) bool {
	if w.replayed[c.simCommand] { // the ack may be that of a dead letter
		return false
	}
	acked := w.broker.ackedAt(c.simCommand)
	const while = 2 * time.Hour
	if acked.IsZero() || len(w.leaps) > 0 && w.leaps[len(w.leaps)-1].After(acked.Add(-while)) {
		return false
	}
	return acked.Before(reached.Add(time.Since(w.clock())))
}
