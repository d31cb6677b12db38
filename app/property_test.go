package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A step is one thing that happens to the service.
type step struct {
	Do    string        // what
	Key   int           // of which timer
	Age   int64         // timestamp of the command: order of versions, not of arrival
	Due   time.Duration // after now
	After time.Duration // how far the time moves on afterwards
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		Do:    rapid.SampledFrom([]string{"wait", "schedule", "schedule", "schedule", "cancel", "cancel", "resend", "crash", "restart", "clock"}).Draw(t, "do"),
		Key:   rapid.IntRange(0, 4).Draw(t, "key"),
		Age:   rapid.Int64Range(1, 6).Draw(t, "age"),
		Due:   time.Duration(rapid.Int64Range(-2000, 30_000).Draw(t, "due")) * time.Millisecond,
		After: time.Duration(rapid.Int64Range(0, 8000).Draw(t, "after")) * time.Millisecond,
	}
})

// TestInvariants runs the whole app, on a real database and the worst broker
// that keeps its contract, through arbitrary histories: commands in any order
// and any number of times, calls that fail before or after they take effect,
// crashes, and a clock that steps. Every promise must hold at every step.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// From 1 on, histories would have 6 steps on average, too few for two
		// commands to meet in a fault; a step too many shrinks to a wait.
		history := rapid.SliceOfN(steps, 8, 40).Draw(rt, "history")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom([]int{0, 20, 5, 3}).Draw(rt, "one call in … fails")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, seed, oneIn)
			defer w.stop()
			broken = w.live(history)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// A world is the app, what it stands on, and what is known from outside.
type world struct {
	t        *testing.T
	path     string
	broker   *simBroker
	failures *failures
	offset   atomic.Int64 // of the service's clock to the bubble's, in nanoseconds
	jumped   bool         // the clock stepped
	faulty   bool         // calls failed, or the process crashed

	sent  []sentCommand
	check int                  // events checked so far
	first map[string]simEvent  // the first publish of each event id
	fired map[timer.Key]string // the event id of each key

	store *sqlite.Store
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

func newWorld(t *testing.T, seed uint64, oneIn int) *world {
	f := &failures{rng: rand.New(rand.NewPCG(seed, 2)), oneIn: oneIn}
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "timers.db"),
		broker: newSimBroker(seed, f.decide), failures: f, faulty: oneIn > 0,
		first: make(map[string]simEvent), fired: make(map[timer.Key]string),
	}
	w.start()
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *world) start() {
	s, err := sqlite.Open(w.t.Context(), w.path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	a, err := app.New(&fault.Store{Full: s, Decide: w.failures.decide}, w.broker, slog.New(slog.DiscardHandler),
		app.Options{Clock: timer.ClockFunc(w.now), BatchSize: 3})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(w.t.Context())
	w.end = end
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

// live goes through a history, then lets everything heal and settle.
func (w *world) live(history []step) error {
	for i, s := range history {
		w.do(i, s)
		time.Sleep(s.After)
		synctest.Wait()
		if err := w.invariants(); err != nil {
			return fmt.Errorf("after step %d, %+v: %w", i, s, err)
		}
	}
	w.failures.heal()
	for range 20 {
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.invariants(); err != nil {
			return fmt.Errorf("after the last step: %w", err)
		}
	}
	return w.settled()
}

func (w *world) do(i int, s step) {
	key := timer.Key{TenantID: timer.TenantID(name("tenant-", s.Key%2)), ServiceCallID: timer.ServiceCallID(name("call-", s.Key))}
	version := timer.Version{TimestampMS: s.Age, CommandID: fmt.Sprintf("command-%02d", i)}
	switch s.Do {
	case "schedule":
		c := timer.ScheduleTimer{
			Key: key, Version: version, DueAt: timer.RoundUp(w.now().Add(s.Due)), CorrelationID: name("trace-", i),
		}
		w.sent = append(w.sent, sentCommand{schedule: &c, simCommand: w.broker.send(message.NewMessage(version.CommandID, envelope.Schedule(c)))})
	case "cancel":
		c := timer.CancelTimer{Key: key, Version: version}
		w.sent = append(w.sent, sentCommand{cancel: &c, simCommand: w.broker.send(message.NewMessage(version.CommandID, envelope.Cancel(c)))})
	case "resend":
		if len(w.sent) > 0 {
			w.broker.resend(w.sent[s.Key%len(w.sent)].simCommand)
		}
	case "clock": // steps back, or forward by less than the guard minds
		w.offset.Add(int64(s.Due))
		w.jumped = true
	case "restart":
		w.stop()
		w.start()
	case "crash":
		w.faulty = true
		w.failures.crash(true)
		w.do(i, step{Do: "schedule", Key: s.Key, Age: s.Age, Due: s.Due}) // meets the dying process
		time.Sleep(time.Second)
		w.stop()
		w.failures.crash(false)
		w.start()
	}
}

// invariants checks what must hold at every moment, on the events published
// since the last check.
func (w *world) invariants() error {
	if w.died != nil {
		return fmt.Errorf("the app died: %w", w.died)
	}
	all := w.broker.published()
	for _, e := range all[w.check:] {
		m, err := envelope.Decode(e.msg.Payload)
		if err != nil {
			return fmt.Errorf("published what does not decode: %w", err)
		}
		event, ok := m.Payload.(timer.DueTimeReached)
		if !ok {
			return fmt.Errorf("published a %s", m.Type)
		}
		if err := w.checkEvent(e, event); err != nil {
			return fmt.Errorf("event %s of %s: %w", event.ID, event.Key, err)
		}
	}
	w.check = len(all)
	return nil
}

func (w *world) checkEvent(e simEvent, event timer.DueTimeReached) error {
	if event.ReachedAt.Before(event.DueAt) {
		return fmt.Errorf("early: reached at %v, due at %v", event.ReachedAt, event.DueAt)
	}
	if e.msg.UUID != event.ID {
		return fmt.Errorf("the broker's dedupe id is %s", e.msg.UUID)
	}
	if want := simRouting.EventsOf(event.TenantID); e.msg.Metadata.Get("topic") != want {
		return fmt.Errorf("went to %s, want %s", e.msg.Metadata.Get("topic"), want)
	}
	if first, again := w.first[event.ID]; again && string(first.msg.Payload) != string(e.msg.Payload) {
		return fmt.Errorf("the same id with another body:\n%s\n%s", first.msg.Payload, e.msg.Payload)
	}
	if _, again := w.first[event.ID]; again && !w.faulty {
		return errors.New("published twice, though nothing failed")
	}
	w.first[event.ID] = e
	if id, fired := w.fired[event.Key]; fired && id != event.ID {
		return fmt.Errorf("the key fired before, as %s", id)
	}
	w.fired[event.Key] = event.ID

	cause := slices.IndexFunc(w.sent, func(c sentCommand) bool {
		return c.schedule != nil && c.schedule.Key == event.Key && c.schedule.DueAt.Equal(event.DueAt) &&
			c.schedule.CorrelationID == event.CorrelationID
	})
	if cause < 0 {
		return fmt.Errorf("invented: no command has its due time and correlation")
	}
	for _, c := range w.sent {
		if c.key() == event.Key && c.version().Compare(w.sent[cause].version()) > 0 && c.supersededBefore(event.ReachedAt, w) {
			return fmt.Errorf("superseded by %s before it was reached", c.version().CommandID)
		}
	}
	return nil
}

// supersededBefore reports whether the command was acked before the moment
// given, by the bubble's clock. Only without steps of the clock can the two be
// compared.
func (c sentCommand) supersededBefore(reached time.Time, w *world) bool {
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	return !w.jumped && !c.ackedAt.IsZero() && c.ackedAt.Before(reached)
}

// settled checks what must hold when everything healed and all time is over:
// nothing is lost, and the database agrees with what was published.
func (w *world) settled() error {
	if n := w.broker.unacked(); n > 0 {
		return fmt.Errorf("%d commands were never acked", n)
	}
	if n := len(w.broker.dead); n > 0 {
		return fmt.Errorf("%d healthy commands became dead letters, the first: %v", n, w.broker.dead[0].Metadata)
	}
	stats, err := w.store.Stats(w.t.Context())
	if err != nil {
		return err
	}
	if stats.Outbox != 0 || stats.Parked != 0 {
		return fmt.Errorf("%d events wait and %d are parked", stats.Outbox, stats.Parked)
	}
	newest := make(map[timer.Key]sentCommand)
	for _, c := range w.sent {
		if n, ok := newest[c.key()]; !ok || c.version().Compare(n.version()) > 0 {
			newest[c.key()] = c
		}
	}
	for key, c := range newest {
		entry, err := w.store.Get(w.t.Context(), key)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		_, fired := w.fired[key]
		switch {
		case fired != (entry.State == timer.Reached):
			return fmt.Errorf("%s is %s, but fired = %v", key, entry.State, fired)
		case c.schedule != nil && !fired && !c.schedule.DueAt.After(w.now()):
			return fmt.Errorf("%s is lost: %s, due at %v", key, entry.State, c.schedule.DueAt)
		case c.cancel != nil && entry.State == timer.Scheduled:
			return fmt.Errorf("%s is Scheduled, but its newest command cancels it", key)
		case !fired && entry.Version != c.version():
			return fmt.Errorf("%s has version %v, want the newest, %v", key, entry.Version, c.version())
		}
	}
	return nil
}
