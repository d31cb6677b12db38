package app_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
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
	oneIn       []int    // one call in so many fails, before or after it takes effect; 0: none does
	crashIn     []int    // the process crashes in one call in so many; 0: in none
	prepare     func(w *world)
}

func (h histories) check(t *testing.T) {
	t.Helper()
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
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
			h.prepare(w)
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
	histories{ordinary, 8, 40, []int{0, 20, 5, 3}, []int{0, 0, 50}, func(*world) {}}.check(t)
}

// TestInvariantsWithPauses has people pause and resume firing between all that happens:
// nothing fires meanwhile, and nothing is lost.
func TestInvariantsWithPauses(t *testing.T) {
	do := slices.Concat(ordinary, []string{"pause", "resume", "pause tenant", "resume tenant", "pause", "resume tenant"})
	histories{do, 8, 25, []int{0, 20, 5}, []int{0}, func(w *world) { w.pauses = true }}.check(t)
}

// TestInvariantsWithQuotas has quotas so small that they are exceeded all the time. A command
// that becomes a dead letter since it was over a quota is replayed. In the end, when there are
// no quotas any more, nothing is lost.
func TestInvariantsWithQuotas(t *testing.T) {
	do := slices.Concat(ordinary, slices.Repeat([]string{"quota", "many"}, 4))
	histories{do, 4, 20, []int{0, 20, 5}, []int{0}, func(w *world) {
		w.quotas = &quota.Config{Default: limitsOf(step{Key: 1, Age: 3})}
	}}.check(t)
}

// TestInvariantsOfBothWays has a program schedule and cancel in its own process, in
// transactions of its own that are committed or not, and over the broker, all about the same
// keys. Every promise must hold whatever way a command took.
func TestInvariantsOfBothWays(t *testing.T) {
	do := []string{"wait", "schedule", "cancel", "resend", "outage", "crash", "restart", "clock", "direct", "direct", "joined", "joined", "rolled back", "cancel direct"}
	histories{do, 8, 16, []int{0, 20, 5}, []int{0}, func(*world) {}}.check(t)
}

// live goes through a history, then lets everything heal and settle.
func (w *world) live(history []step) error {
	for i, s := range history {
		if err := w.book(i, s); err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
		before, paused := w.fires()
		if err := w.once(i, s); err != nil {
			return err
		}
		after, still := w.fires()
		for tenant, n := range after {
			if now := time.Now(); paused.Of(tenant, now).Paused() && still.Of(tenant, now).Paused() && n != before[tenant] {
				return fmt.Errorf("%d timers of %s fired in step %d while firing was paused", n-before[tenant], tenant, i)
			}
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
	case "pause", "resume":
		w.pause("", s.Do == "pause")
	case "pause tenant", "resume tenant":
		w.pause("tenant-0", s.Do == "pause tenant")
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
		w.failures.die(true) // if there was no such call
		w.revive()
	}
}

// pause pauses or resumes firing of a tenant, or of all, however often that fails, and waits
// until the service knows it.
func (w *world) pause(tenant timer.TenantID, on bool) {
	for range 20 {
		var err error
		if on {
			err = w.app.Pause(w.t.Context(), timer.Pause{TenantID: tenant, By: "ops"})
		} else {
			err = w.app.Resume(w.t.Context(), tenant)
		}
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// fires returns how many timers of each tenant have fired, and whose firing is paused, if
// people pause it now and then.
func (w *world) fires() (map[timer.TenantID]int64, timer.Pauses) {
	if !w.pauses {
		return nil, nil
	}
	fired := make(map[timer.TenantID]int64)
	for _, tenant := range []timer.TenantID{"tenant-0", "tenant-1"} {
		stats, err := w.store.Stats(w.t.Context(), tenant)
		if err != nil {
			w.t.Error(err)
		}
		fired[tenant] = stats.Reached
	}
	p, err := w.store.Firing(w.t.Context(), time.Now())
	if err != nil {
		w.t.Error(err)
	}
	return fired, p
}
