package app_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
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

// steps returns a generator of its own to each test: one that is shared races
// with itself in tests that run at once.
func steps() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		return step{
			Do:    rapid.SampledFrom([]string{"wait", "schedule", "schedule", "schedule", "cancel", "cancel", "resend", "poison", "outage", "crash", "restart", "clock"}).Draw(t, "do"),
			Key:   rapid.IntRange(0, 4).Draw(t, "key"),
			Age:   rapid.Int64Range(1, 6).Draw(t, "age"),
			Near:  rapid.IntRange(0, 3).Draw(t, "near") == 3,
			Due:   time.Duration(rapid.Int64Range(-2000, 30_000).Draw(t, "due")) * time.Millisecond,
			Life:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "life"),
			After: time.Duration(rapid.Int64Range(0, 8000).Draw(t, "after")) * time.Millisecond,
		}
	})
}

// TestInvariants runs the whole app, on a real database and the worst broker
// that keeps its contract, through arbitrary histories: commands in any order
// and any number of times, calls that fail before or after they take effect,
// crashes, and a clock that steps. Every promise must hold at every step.
func TestInvariants(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		// From 1 on, histories would have 6 steps on average, too few for two
		// commands to meet in a fault; a step too many shrinks to a wait.
		history := rapid.SliceOfN(steps(), 8, 40).Draw(rt, "history")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom([]int{0, 20, 5, 3}).Draw(rt, "one call in … fails")
		crashIn := rapid.SampledFrom([]int{0, 0, 50}).Draw(rt, "one call in … crashes")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, seed, oneIn, app.Options{BatchSize: 3})
			w.failures.crashIn = crashIn
			w.start()
			defer w.stop()
			broken = w.live(history)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// live goes through a history, then lets everything heal and settle.
func (w *world) live(history []step) error {
	for i, s := range history {
		if err := w.once(i, s); err != nil {
			return err
		}
	}
	return w.settle(20 * time.Minute)
}

// once goes through a step of a history.
func (w *world) once(i int, s step) error {
	w.do(i, s)
	time.Sleep(s.After)
	synctest.Wait()
	w.revive()
	if err := w.invariants(); err != nil {
		return fmt.Errorf("after step %d, %+v: %w", i, s, err)
	}
	return nil
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
	case "quota":
		w.limit(s)
	case "many":
		for k := range 8 {
			w.do(100+10*i+k, step{Do: "schedule", Key: k % 5, Age: s.Age + int64(k/5), Due: s.Due + time.Duration(k)*time.Second, Life: s.Life * time.Duration(k%2)})
		}
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
		w.failures.crash(true) // if there was no such call
		w.revive()
	}
}
