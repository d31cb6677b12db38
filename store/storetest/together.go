package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Together tests two stores on one database, as two instances of the service have
// them. Open returns both, on an empty database, and has them closed when the test
// ends.
func Together(t *testing.T, open func(testing.TB) (a, b Store)) {
	for _, c := range []struct {
		name string
		test func(a, b *suite)
	}{
		{"Reach by both at once: each timer to exactly one", bothReach},
		{"Reach by both while more is due than a batch: each timer to exactly one, and all tenants are served", bothReachBacklogged},
		{"Commands by both against Reach by both: the result of a command is what happens", bothRaceReach},
		{"The same new keys through both at once: one timer, scheduled once", bothScheduleNew},
		{"Versions of the same keys through both at once: the newest wins", bothVersions},
		{"Calls with the same keys through both, in any order: none fails", bothMix},
		{"Purge by both at once: each timer by one", bothPurge},
		{"Forget against commands and Reach: none fails, and no other tenant loses a timer", forgetRacesCommands},
		{"Forget against Reach: it ends when none is left", forgetRacesReach},
		{"Parked events retried by both at once: each by one", bothRetry},
		{"Purge against commands: a timer that is scheduled again is there", purgeRacesSchedule},
		{"Fired by both at once, against Reach: each timer by one", bothFired},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			first, second := &suite{T: t, store: a}, &suite{T: t, store: b}
			c.test(first, second)
			first.countsAreRight()
			second.countsAreRight()
		})
	}
}

// atOnce runs fn for both, and waits.
func atOnce(a, b *suite, fn func(s *suite, n int)) {
	var running sync.WaitGroup
	for n, s := range []*suite{a, b} {
		running.Go(func() { fn(s, n) })
	}
	running.Wait()
}

// takenByBoth reaches with both until there is nothing left, and returns how often
// each timer came.
func takenByBoth(a, b *suite, limit int) map[timer.Key]int {
	var mu sync.Mutex
	times := make(map[timer.Key]int)
	for range 2 { // what one holds when the other finds nothing, and then gives back, is left for the second turn
		atOnce(a, b, func(s *suite, _ int) {
			for {
				entries := s.reach(noon.Add(time.Hour), limit)
				mu.Lock()
				for _, e := range entries {
					times[e.Key]++
				}
				mu.Unlock()
				if len(entries) == 0 {
					return
				}
			}
		})
	}
	for k, n := range times {
		if n > 1 {
			a.Errorf("%s came %d times", k, n)
		}
	}
	return times
}

func bothReach(a, b *suite) {
	a.timers("acme", 900, noon)
	a.same("timers", len(takenByBoth(a, b, 1000)), 900)
}

func bothReachBacklogged(a, b *suite) {
	const tenants, each = 23, 40
	for i := range tenants {
		a.timers(timer.TenantID(fmt.Sprintf("tenant-%02d", i)), each, noon.Add(time.Duration(i)*time.Second))
	}
	a.same("timers", len(takenByBoth(a, b, 17)), tenants*each)
}

// bothRaceReach reschedules and cancels timers through both while both make them Reached.
// The outcome of each command must be true: after DidReschedule only the new due time
// may fire, after DidCancel none, after WasReached the old one has fired.
func bothRaceReach(a, b *suite) {
	const each = 200
	tenants := []timer.TenantID{"acme", "beta"}
	for _, tenant := range tenants {
		a.timers(tenant, each, noon)
	}
	later := noon.Add(24 * time.Hour)
	var mu sync.Mutex
	returned, fired := make(map[timer.Key]timer.Outcome), make(map[timer.Key]time.Time)
	atOnce(a, b, func(s *suite, n int) {
		var reaching sync.WaitGroup
		reaching.Go(func() {
			for range each {
				for _, e := range s.reach(noon.Add(time.Hour), 1) {
					mu.Lock()
					fired[e.Key] = e.DueAt
					mu.Unlock()
				}
			}
		})
		for i := range each {
			k := key(tenants[n], timer.ServiceCallID(fmt.Sprintf("call-%06d", i)))
			var outcome timer.Outcome
			if i%2 == 0 {
				outcome = s.schedule(schedule(k, 2, later))[0]
			} else {
				outcome = s.cancel(cancel(k, 2))[0]
			}
			mu.Lock()
			returned[k] = outcome
			mu.Unlock()
		}
		reaching.Wait()
	})
	won := 0
	for k, outcome := range returned {
		_, reached := fired[k]
		switch e := a.get(k); outcome {
		case timer.DidReschedule:
			won++
			a.same(k.String(), []any{reached, e.State, e.DueAt}, []any{false, timer.Scheduled, later})
		case timer.DidCancel:
			won++
			a.same(k.String(), []any{reached, e.State}, []any{false, timer.Canceled})
		case timer.WasReached:
			a.same(k.String(), []any{reached, e.State, e.Version}, []any{true, timer.Reached, version(1)})
		default:
			a.Errorf("%s: the command returned %s", k, outcome)
		}
	}
	if won == 0 || won == len(returned) {
		a.Logf("no race in this run: commands won %d of %d", won, len(returned))
	}
}

// bothScheduleNew has both schedule the same new keys, in calls of several.
func bothScheduleNew(a, b *suite) {
	const calls, size = 60, 7
	var mu sync.Mutex
	outcomes := make(map[timer.Key][]timer.Outcome)
	atOnce(a, b, func(s *suite, n int) {
		random := rand.New(rand.NewPCG(uint64(n), 1)) // each has its own order, the same every time
		for call := range calls {
			commands := make([]timer.ScheduleTimer, size)
			for i, j := range random.Perm(size) {
				commands[i] = schedule(key("acme", timer.ServiceCallID(fmt.Sprint("call-", call*size+j))), 1, noon)
			}
			got := s.schedule(commands...)
			mu.Lock()
			for i, c := range commands {
				outcomes[c.Key] = append(outcomes[c.Key], got[i])
			}
			mu.Unlock()
		}
	})
	a.same("timers", len(outcomes), calls*size)
	for k, got := range outcomes {
		slices.Sort(got)
		a.same(k.String(), got, []timer.Outcome{timer.DidSchedule, timer.WasSame})
	}
	a.same("fired", len(takenByBoth(a, b, 1000)), calls*size)
}

// bothVersions sends even versions through one and odd ones through the other.
// The last word of both together is the newest version, and as many commands
// changed a timer as its version moved.
// unlocked applies commands, again as long as another transaction holds their timers, as callers do:
// on a busy disk the other store may hold them for longer than a store waits.
func unlocked[C any](ctx context.Context, apply func(context.Context, time.Time, ...C) ([]timer.Result, error), now time.Time, commands ...C) (results []timer.Result, err error) {
	for tries := 0; tries == 0 || tries < 50 && errors.Is(err, timer.ErrLocked); tries++ {
		results, err = apply(ctx, now, commands...)
	}
	return results, err
}

func bothVersions(a, b *suite) {
	const versions, keys = 80, 5
	var mu sync.Mutex
	newest := make(map[timer.Key]int64) // of those that did something
	atOnce(a, b, func(s *suite, n int) {
		for v := int64(n); v < versions; v += 2 {
			commands := make([]timer.ScheduleTimer, keys)
			for i := range commands {
				commands[i] = schedule(key("acme", timer.ServiceCallID(fmt.Sprint("call-", i))), v, noon.Add(time.Duration(v)*time.Hour))
			}
			for i, outcome := range s.outcomes(unlocked(s.Context(), s.store.Schedule, noon, commands...)) {
				if outcome == timer.DidSchedule || outcome == timer.DidReschedule {
					mu.Lock()
					newest[commands[i].Key] = max(newest[commands[i].Key], v)
					mu.Unlock()
				} else if outcome != timer.WasStale {
					s.Errorf("%s, version %d: %s", commands[i].Key, v, outcome)
				}
			}
		}
	})
	a.same("keys", len(newest), keys)
	for k, v := range newest {
		e := b.get(k)
		a.same(k.String(), []any{v, e.Version, e.DueAt}, []any{int64(versions - 1), version(versions - 1), noon.Add((versions - 1) * time.Hour)})
	}
}

// bothMix sends everything that locks, with few keys, so that calls meet.
func bothMix(a, b *suite) {
	const rounds, keys = 120, 12
	atOnce(a, b, func(s *suite, n int) {
		var running sync.WaitGroup
		for worker := range 2 {
			random := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
			running.Go(func() {
				for round := range rounds {
					var schedules []timer.ScheduleTimer
					var cancels []timer.CancelTimer
					for range 1 + random.IntN(8) {
						k := key(timer.TenantID(fmt.Sprint("t-", random.IntN(2))), timer.ServiceCallID(fmt.Sprint("call-", random.IntN(keys))))
						schedules = append(schedules, schedule(k, int64(2*round), noon.Add(time.Duration(random.IntN(10))*time.Second)))
						cancels = append(cancels, cancel(k, int64(2*round+random.IntN(2))))
					}
					var err error
					switch random.IntN(4) {
					case 0, 1:
						_, err = unlocked(s.Context(), s.store.Schedule, noon, schedules...)
					case 2:
						_, err = unlocked(s.Context(), s.store.Cancel, noon, cancels...)
					case 3:
						err = s.store.Update(s.Context(), func(tx timer.Tx) error {
							_, err := fire(s.Context(), tx, noon.Add(time.Duration(random.IntN(5))*time.Second), 3)
							return err
						})
						s.check(err)
						_, err = s.store.Purge(s.Context(), noon.Add(time.Hour), 2)
					}
					s.check(err)
				}
			})
		}
		running.Wait()
	})
}

func bothPurge(a, b *suite) {
	const n = 500
	a.timers("acme", n, noon)
	a.reach(noon.Add(time.Hour), n)
	var mu sync.Mutex
	sum := 0
	for range 2 { // as in [takenByBoth]
		atOnce(a, b, func(s *suite, _ int) {
			deleted := s.sweep(noon.Add(2*time.Hour), 7)
			mu.Lock()
			defer mu.Unlock()
			sum += deleted
		})
	}
	a.same("deleted", sum, n)
	a.same("left", a.stats().Counts, timer.Counts{})
}

// purgeRacesSchedule schedules timers again that were canceled long ago, while
// they are purged.
func purgeRacesSchedule(a, b *suite) {
	const n = 300
	var keys []timer.Key
	var cancels []timer.CancelTimer
	for i := range n {
		keys = append(keys, key("acme", timer.ServiceCallID(fmt.Sprintf("call-%06d", i))))
		cancels = append(cancels, cancel(keys[i], 1))
	}
	a.cancel(cancels...)
	atOnce(a, b, func(s *suite, n int) {
		if n == 0 {
			for deleted := 1; deleted > 0; {
				var err error
				deleted, err = s.store.Purge(s.Context(), noon.Add(time.Hour), 3)
				s.check(err)
			}
			return
		}
		for i := len(keys) - 3; i >= 0; i -= 3 { // from the other end
			got := s.schedule(schedule(keys[i], 2, noon), schedule(keys[i+1], 2, noon), schedule(keys[i+2], 2, noon))
			s.same("outcomes", got, []timer.Outcome{timer.DidSchedule, timer.DidSchedule, timer.DidSchedule})
		}
	})
	a.same("left", a.stats().Counts, timer.Counts{Scheduled: n})
}

// forgetRacesCommands has commands come for timers of two tenants, in an order that is
// not that of the keys, and some of them fire, while one tenant is forgotten.
func forgetRacesCommands(a, b *suite) {
	const n = 200
	a.timers("acme", n, noon)
	a.timers("beta", n, noon)
	var forgotten timer.Counts
	atOnce(a, b, func(s *suite, which int) {
		if which == 0 {
			for range 60 {
				c, err := s.store.Forget(s.Context(), "acme", time.Time{}, 7)
				s.check(err)
				forgotten = forgotten.Add(c)
			}
			return
		}
		for i := range n {
			var commands []timer.ScheduleTimer
			for j := range 5 {
				call := timer.ServiceCallID(fmt.Sprintf("call-%06d", (i*7+5-j)%n))
				commands = append(commands, schedule(key("acme", call), int64(i+2), noon), schedule(key("beta", call), int64(i+2), noon))
			}
			results, err := s.store.Schedule(s.Context(), noon, commands...)
			s.check(err)
			for _, r := range results {
				s.check(r.Err)
			}
			s.check(s.store.Update(s.Context(), func(tx timer.Tx) error {
				_, err := fire(s.Context(), tx, noon.Add(time.Millisecond), 3)
				return err
			}))
		}
	})
	b.same("of the other", b.counted("beta").Total(), int64(n))
	a.same("left", a.counted("acme").Total(), a.forgetAll("acme", 1000).Total())
	if forgotten.Total() < n {
		a.Errorf("forgot %+v, of %d and more", forgotten, n)
	}
}

// forgetRacesReach has timers fire, the first ones first, while they are forgotten in
// that order: steps meet the rows that a transaction is changing.
func forgetRacesReach(a, b *suite) {
	const n = 2000
	a.timers("acme", n, noon)
	var forgotten timer.Counts
	atOnce(a, b, func(s *suite, which int) {
		if which == 0 {
			forgotten = s.forgetAll("acme", 20)
			return
		}
		for range n / 40 {
			s.reach(noon.Add(time.Hour), 20)
		}
	})
	a.same("forgotten", forgotten.Total(), int64(n))
	a.same("left", b.counted("acme"), timer.Counts{})
}

func bothRetry(a, b *suite) {
	seqs := a.park(twenty("acme")...)
	var mu sync.Mutex
	sum := 0
	atOnce(a, b, func(s *suite, which int) {
		for i := range seqs {
			if which == 1 {
				i = len(seqs) - 1 - i
			}
			n := s.retry(noon, seqs[i], seqs[(i+1)%len(seqs)])
			mu.Lock()
			sum += n
			mu.Unlock()
		}
	})
	a.same("retried", sum, len(seqs))
	a.same("parked", a.stats().Parked, int64(0))
	a.same("outbox", a.stats().Outbox, int64(len(seqs)))
}
