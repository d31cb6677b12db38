package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func bothForget(a, b *suite) {
	const n = 500
	a.timers("acme", n, noon)
	a.timers("beta", 3, noon)
	var mu sync.Mutex
	var sum timer.Counts
	atOnce(a, b, func(s *suite, _ int) {
		c := s.forgetAll("acme", 7)
		mu.Lock()
		defer mu.Unlock()
		sum = sum.Add(c)
	})
	a.same("forgotten", sum, timer.Counts{Scheduled: n})
	a.same("left", a.stats().Counts, timer.Counts{Scheduled: 3})
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
				c, err := s.store.Forget(s.Context(), "acme", 7)
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

func bothPause(a, b *suite) {
	for _, tenant := range []timer.TenantID{"", "acme"} {
		pause := timer.Pause{TenantID: tenant, Since: noon, By: "ops"}
		a.pause(pause)
		b.same("paused", b.firing(noon), timer.Pauses{tenant: pause})
		b.pause(timer.Pause{TenantID: tenant, Since: noon.Add(time.Hour)})
		a.same("paused again", a.firing(noon), timer.Pauses{tenant: pause})
		b.resume(tenant)
		a.same("resumed", a.firing(noon), timer.Pauses{})
	}
}
