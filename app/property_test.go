package app_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A step is one thing that happens to the service.
type step struct {
	Do    string        // what
	Key   int           // of which timer
	Age   int64         // timestamp of the command: order of versions, not of arrival
	Due   time.Duration // after now
	Near  bool          // due a millisecond after the timer scheduled last, instead
	Life  time.Duration // how long after it is due it expires; 0: never
	After time.Duration // how far the time moves on afterwards
}

// ordinary is what happens to the service in each history, as often as it stands here.
var ordinary = []string{"wait", "schedule", "schedule", "schedule", "cancel", "cancel", "resend", "poison", "outage", "crash", "restart", "clock"}

// Histories are arbitrary histories of the whole app, on a real database and the worst
// broker that keeps its contract. Every promise must hold at every step.
type histories struct {
	do          []string // what happens in a step
	least, most int      // steps
	oneIn       []int    // n: one call in n fails, before or after it takes effect; 0: none does
	crashIn     []int    // n: the process crashes in one call in n; 0: in none
}

func (h histories) check(t *testing.T) {
	t.Helper()
	t.Parallel()
	_, err := migrated() // not in a bubble, which its goroutines would outlive
	must(t, err)
	steps := rapid.Custom(func(t *rapid.T) step {
		return step{
			Do:    rapid.SampledFrom(h.do).Draw(t, "do"),
			Key:   rapid.IntRange(0, 4).Draw(t, "key"),
			Age:   rapid.Int64Range(1, 6).Draw(t, "age"),
			Near:  rapid.IntRange(0, 3).Draw(t, "near") == 3,
			Due:   time.Duration(rapid.Int64Range(-2000, 30_000).Draw(t, "due")) * time.Millisecond,
			Life:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "life"),
			After: time.Duration(rapid.Int64Range(0, 8000).Draw(t, "after")) * time.Millisecond,
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(steps, h.least, h.most).Draw(rt, "history")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom(h.oneIn).Draw(rt, "one call in … fails")
		crashIn := rapid.SampledFrom(h.crashIn).Draw(rt, "one call in … crashes")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, &failures{seed: seed, oneIn: oneIn, crashIn: crashIn}, app.Options{BatchSize: 3})
			w.start()
			defer w.stop()
			broken = w.live(history)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// TestInvariants has commands in any order and any number of times, calls that fail before or
// after they take effect, crashes, and a clock that steps.
func TestInvariants(t *testing.T) {
	// From 1 step on, histories would have 6 steps on average, too few for two commands to
	// meet in a fault; a step too many shrinks to a wait.
	histories{ordinary, 8, 40, []int{0, 20, 5, 3}, []int{0, 0, 50}}.check(t)
}

// TestInvariantsOfBothWays has a program schedule and cancel in its own process, in
// transactions of its own that are committed or not, and over the broker, all about the same
// keys. Every promise must hold whatever way a command took.
func TestInvariantsOfBothWays(t *testing.T) {
	do := []string{"wait", "schedule", "cancel", "resend", "outage", "crash", "restart", "clock", "direct", "direct", "joined", "joined", "rolled back", "cancel direct"}
	histories{do, 8, 16, []int{0, 20, 5}, []int{0}}.check(t)
}

// TestDirectCancelsWhileTheClockStepsBack has a second cancel follow the stored version of the
// first one, though the clock is behind it.
func TestDirectCancelsWhileTheClockStepsBack(t *testing.T) {
	t.Parallel()
	_, err := migrated() // not in a bubble, which its goroutines would outlive
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour)
		w := newWorld(t, &failures{}, app.Options{})
		w.start()
		defer w.stop()
		must(t, w.live([]step{
			{Do: "cancel direct", After: time.Second},
			{Do: "clock", Due: -2 * time.Second, After: time.Second},
			{Do: "cancel direct", After: time.Second},
		}))
	})
}

// live goes through a history, then lets everything heal and settle.
func (w *world) live(history []step) error {
	for i, s := range history {
		if err := w.book(i, s); err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
		w.do(i, s)
		time.Sleep(s.After)
		synctest.Wait()
		w.revive()
		if err := w.invariants(); err != nil {
			return fmt.Errorf("after step %d, %+v: %w", i, s, err)
		}
	}
	return w.settle(20 * time.Minute)
}

// dooms are the calls that a process crashes in.
var dooms = [...]string{"schedule", "schedule", "update", "publish", "delete"}

func (w *world) do(i int, s step) {
	key := timer.Key{TenantID: timer.TenantID(name("tenant-", s.Key%2)), ServiceCallID: timer.ServiceCallID(name("call-", s.Key))}
	version := timer.Version{TimestampMS: firstMS + s.Age, CommandID: fmt.Sprintf("command-%02d", i)}
	switch s.Do {
	case "schedule":
		due := timer.RoundUp(w.clock().Add(s.Due))
		if s.Near && !w.lastDue.IsZero() {
			due = w.lastDue.Add(time.Millisecond)
		}
		c := timer.ScheduleTimer{Key: key, Version: version, DueAt: due, CorrelationID: name("trace-", i)}
		if s.Life > 0 {
			c.ExpiresAt = due.Add(s.Life)
		}
		w.schedule(c)
	case "cancel":
		w.cancel(timer.CancelTimer{Key: key, Version: version})
	case "resend":
		if len(w.sent) > 0 {
			w.broker.resend(w.sent[s.Key%len(w.sent)].simCommand)
		}
	case "poison":
		w.sendPoison(version.CommandID, s.Key)
	case "clock": // steps back, or forward by less than the guard minds
		w.step(time.Duration(w.wrong.Load()) + s.Due)
	case "restart":
		w.stop()
		w.start()
	case "outage": // of the store
		w.faulty = true
		w.failures.outage(storeOps...)
		w.do(i, step{Do: "schedule", Key: s.Key, Age: s.Age, Due: s.Due, Life: s.Life})
		time.Sleep(10 * time.Second)
		w.failures.outage()
	case "crash":
		w.failures.doom(dooms[s.Key])
		w.do(i, step{Do: "schedule", Key: s.Key, Age: s.Age, Due: s.Due, Life: s.Life}) // meets the dying process
		time.Sleep(time.Second)
		w.failures.die(true) // if there was no such call
		w.revive()
	}
}

var errRollBack = errors.New("no")

// book goes through a step that is not about the broker. A command whose effect is
// unknown is sent over the broker, with the same version.
func (w *world) book(i int, s step) error {
	key := timer.Key{TenantID: timer.TenantID(name("tenant-", s.Key%2)), ServiceCallID: timer.ServiceCallID(name("call-", s.Key))}
	ctx, timers := w.t.Context(), w.app.Timers()
	if s.Do == "cancel direct" {
		if err := timers.Cancel(ctx, key); err == nil || unknown(err) {
			w.cancel(timer.CancelTimer{Key: key, Version: w.newer(key)}) // so that the version is known, and that it is done
		}
		return nil
	}
	c := timer.ScheduleTimer{
		Key: key, Version: timer.Version{TimestampMS: firstMS + s.Age, CommandID: fmt.Sprintf("command-%02d", i)},
		DueAt: timer.RoundUp(w.clock().Add(s.Due)), CorrelationID: name("trace-", i), Data: `{"way":"direct"}`,
	}
	if s.Life > 0 {
		c.ExpiresAt = c.DueAt.Add(s.Life)
	}
	asked := client.Timer{TenantID: key.TenantID, ServiceCallID: key.ServiceCallID, DueAt: c.DueAt, ExpiresAt: c.ExpiresAt, CorrelationID: c.CorrelationID, Data: json.RawMessage(c.Data), Version: c.Version}
	var err error
	switch s.Do {
	case "direct":
		err = timers.Schedule(ctx, asked)
	case "joined":
		err = timers.Tx(ctx, func(tx *sql.Tx) error {
			if err := timers.ScheduleTx(ctx, tx, asked); unknown(err) {
				return err
			}
			return nil // commands without effect are committed, too
		})
	case "rolled back":
		err = timers.Tx(ctx, func(tx *sql.Tx) error { return errors.Join(timers.ScheduleTx(ctx, tx, asked), errRollBack) })
		if err == nil {
			return errors.New("committed what fails")
		}
		return nil // if it fires it is invented
	default:
		return nil
	}
	msg := message.NewMessage(c.CommandID, envelope.Schedule(c))
	sent := sentCommand{schedule: &c, simCommand: &simCommand{msg: msg, ackedAt: time.Now()}}
	if unknown(err) {
		sent.simCommand = w.broker.send(msg)
	}
	w.remember(sent)
	return nil
}

// newer returns a version of a key that is newer than all known ones, and than the one that the
// service made for a direct command: that follows the clock and the stored version.
func (w *world) newer(key timer.Key) timer.Version {
	last := w.clock().UnixMilli()
	for _, c := range w.byKey[key] {
		last = max(last, c.version().TimestampMS)
	}
	return timer.Version{TimestampMS: last + (2 * time.Minute).Milliseconds(), CommandID: "newer"}
}

// unknown reports whether the effect of a call is not known.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, timer.ErrStale) && !errors.Is(err, timer.ErrReached) && !errors.Is(err, timer.ErrExpired)
}
