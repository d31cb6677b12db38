package app_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A world is the app, its database and broker, and all that is known from outside.
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
	first       map[string]simEvent       // the first publish of each event id
	fired       map[timer.Key]string      // the event id of each key
	marked      map[timer.Key]timer.State // what the event of each key says

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
		first: make(map[string]simEvent), fired: make(map[timer.Key]string), marked: make(map[timer.Key]timer.State),
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
	must(w.t, newDatabase(w.path))
	s, err := sqlite.Open(w.t.Context(), w.path, sqlite.Options{Durability: sqlite.Relaxed})
	must(w.t, err)
	w.store = s
	a, err := app.New(&fault.Store{Full: s, Decide: w.failures.decide}, w.broker, quiet, w.opt)
	must(w.t, err)
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
	for _, e := range events {
		m, err := envelope.Decode(e.msg.Payload)
		if err != nil {
			return fmt.Errorf("published what does not decode: %w", err)
		}
		event, ok := timer.EventOf(m.Payload)
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
	acked := w.broker.ackedAt(c.simCommand)
	const while = 2 * time.Hour
	if acked.IsZero() || len(w.leaps) > 0 && w.leaps[len(w.leaps)-1].After(acked.Add(-while)) {
		return false
	}
	return acked.Before(reached.Add(time.Since(w.clock())))
}

// settle lets everything heal, and time go by until all has come to rest: at
// most for longest, and for a while more in which nothing may happen. It returns
// the broken promises.
func (w *world) settle(longest time.Duration) error {
	w.failures.heal()
	const while = 2 * time.Minute
	var wrong error
	for rest := longest; rest > 0; rest -= while {
		time.Sleep(while)
		synctest.Wait()
		w.revive()
		if err := w.invariants(); err != nil {
			return fmt.Errorf("after the last step: %w", err)
		}
		settled := wrong == nil && rest < longest
		if wrong = w.settled(); wrong == nil && settled {
			return nil
		}
	}
	return wrong
}

// settled checks what must hold when everything healed and all time is over:
// nothing is lost, and the database agrees with the published events.
func (w *world) settled() error {
	if n := w.broker.unacked(); n > 0 {
		return fmt.Errorf("%d commands were never acked", n)
	}
	for id, p := range w.poison {
		if p.deadLetter == "" {
			return fmt.Errorf("%s was acked, but is no dead letter", id)
		}
	}
	stats, err := w.store.Stats(w.t.Context(), "")
	if err != nil {
		return err
	}
	if stats.Outbox != 0 || stats.Parked != 0 {
		return fmt.Errorf("%d events wait, %d are parked", stats.Outbox, stats.Parked)
	}
	for key, commands := range w.byKey {
		newest := commands[0]
		for _, c := range commands {
			if c.version().Compare(newest.version()) > 0 {
				newest = c
			}
		}
		if err := w.settledKey(key, newest); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (w *world) settledKey(key timer.Key, newest sentCommand) error {
	_, fired := w.fired[key]
	entry, err := w.store.Get(w.t.Context(), key)
	if err != nil {
		return err
	}
	switch {
	case fired && w.marked[key] != "" && w.marked[key] != entry.State:
		return fmt.Errorf("is %s, but its event says %s", entry.State, w.marked[key])
	case fired != entry.State.Marked():
		return fmt.Errorf("is %s, but fired = %v", entry.State, fired)
	case newest.schedule != nil && !fired:
		return fmt.Errorf("lost: %s, due at %v", entry.State, newest.schedule.DueAt)
	case newest.cancel != nil && entry.State == timer.Scheduled:
		return errors.New("is Scheduled, but its newest command cancels it")
	case !fired && entry.Version != newest.version():
		return fmt.Errorf("has version %v, want the newest, %v", entry.Version, newest.version())
	}
	return nil
}

// firstMS is the least timestampMs of a command that is accepted: the beginning
// of all bubbles.
const firstMS = 946_684_800_000

// A poison is a message that no retry can help.
type poison struct {
	body       string
	tenant     timer.TenantID // whose dead letter it becomes
	reason     timer.Reason
	deadLetter string // id of the dead letter, once there is one
}

// poisonous are bodies that no retry can help.
var poisonous = []poison{
	{body: `{`, tenant: timer.NoTenant, reason: timer.ReasonNotJSON},
	{body: `{"id":"x","type":"ScheduleTimer","timestampMs":1,"payload":{}}`, tenant: timer.NoTenant, reason: timer.ReasonMissingField},
	{
		body:   `{"id":"x","type":"CancelTimer","tenantId":"tenant-1","timestampMs":1,"payload":{"tenantId":"tenant-2","serviceCallId":"c"}}`,
		tenant: "tenant-1", reason: timer.ReasonTenantMismatch,
	},
	{
		body:   `{"id":"x","type":"ScheduleTimer","tenantId":"tenant-0","timestampMs":1,"payload":{"tenantId":"tenant-0","serviceCallId":"c","dueAt":"tomorrow"}}`,
		tenant: "tenant-0", reason: timer.ReasonBadTime,
	},
}

func (w *world) sendPoison(id string, n int) {
	p := poisonous[n%len(poisonous)]
	p.body = strings.Replace(p.body, `"id":"x"`, `"id":"`+id+`"`, 1)
	w.poison[id] = p
	w.broker.send(message.NewMessage(id, []byte(p.body)))
}

// checkDead checks a dead letter: that it is of poison, whole, and only one.
func (w *world) checkDead(dead *message.Message) error {
	original := dead.Metadata.Get(envelope.HeaderDeadLetterOriginalID)
	p, known := w.poison[original]
	switch {
	case !known:
		return errors.New("of a healthy command")
	case string(dead.Payload) != p.body:
		return fmt.Errorf("has another body: %q", dead.Payload)
	case dead.Metadata.Get("topic") != simRouting.DeadLettersOf(p.tenant):
		return fmt.Errorf("went to %s", dead.Metadata.Get("topic"))
	case dead.Metadata.Get(envelope.HeaderDeadLetterReason) != string(p.reason):
		return fmt.Errorf("has the reason %s, want %s", dead.Metadata.Get(envelope.HeaderDeadLetterReason), p.reason)
	case p.deadLetter != "" && p.deadLetter != dead.UUID:
		return fmt.Errorf("came before, as %s", p.deadLetter)
	case p.deadLetter != "" && !w.faulty:
		return errors.New("came twice, though nothing failed")
	}
	p.deadLetter = dead.UUID
	w.poison[original] = p
	return nil
}
