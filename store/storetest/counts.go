package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// countsAreRight compares what a store has kept with what there is.
func (s *suite) countsAreRight() {
	s.Helper()
	tenants, err := s.store.Tenants(s.Context(), "", 1000)
	s.must(err)
	var sum timer.Counts
	for _, kept := range tenants {
		sum.Scheduled += kept.Scheduled
		sum.Reached += kept.Reached
		sum.Expired += kept.Expired
		sum.Canceled += kept.Canceled
		s.same("counts of "+string(kept.TenantID), kept.Counts, s.counted(kept.TenantID))
	}
	if len(tenants) < 1000 {
		s.same("counts of all tenants", s.stats().Counts, sum)
	}
	if depth := int64(len(s.waiting())); depth < 30_000 {
		s.same("outbox", s.stats().Outbox, depth)
	}
}

// counted counts the timers of a tenant one by one.
func (s *suite) counted(tenant timer.TenantID) (c timer.Counts) {
	s.Helper()
	for f := (timer.Filter{Limit: 1000}); ; {
		page := s.list(tenant, f)
		for _, e := range page.Entries {
			switch e.State {
			case timer.Scheduled:
				c.Scheduled++
			case timer.Reached:
				c.Reached++
			case timer.Expired:
				c.Expired++
			case timer.Canceled:
				c.Canceled++
			}
		}
		if f.After = page.Next; f.After == "" {
			return c
		}
	}
}

// expiringOrNot has every other command have an expiry.
func expiringOrNot(random *rand.Rand, c timer.ScheduleTimer) timer.ScheduleTimer {
	if random.IntN(2) == 0 {
		c.ExpiresAt = c.DueAt.Add(time.Second)
	}
	return c
}

// countsKept does many things to few timers, in an order that chance chooses.
func countsKept(s *suite) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	tenants := []timer.TenantID{"acme", "beta", "gamma"}
	now := noon
	for age := int64(1); age <= 300; age++ {
		now = now.Add(time.Second)
		k := key(tenants[random.IntN(len(tenants))], timer.ServiceCallID(fmt.Sprint("call-", random.IntN(12))))
		switch random.IntN(6) {
		case 0, 1:
			_, err := s.store.Schedule(s.Context(), now,
				expiringOrNot(random, schedule(k, age-int64(random.IntN(3)), now.Add(time.Duration(random.IntN(20))*time.Second))),
				schedule(key(k.TenantID, k.ServiceCallID+"x"), age, now))
			s.must(err)
		case 2, 3:
			_, err := s.store.Cancel(s.Context(), now, cancel(k, age-int64(random.IntN(3))), cancel(key(k.TenantID, "tombstone"), age))
			s.must(err)
		case 4:
			s.fire(now, 1+random.IntN(4))
		case 5:
			_, err := s.store.Purge(s.Context(), now.Add(-30*time.Second), 1+random.IntN(3))
			s.must(err)
		}
		for _, tenant := range tenants {
			got, err := s.store.Stats(s.Context(), tenant)
			s.must(err)
			if want := s.counted(tenant); got.Counts != want {
				s.Fatalf("after %d steps with seed %d: %s has %+v, want %+v", age, seed, tenant, got, want)
			}
		}
	}
	none, err := s.store.Stats(s.Context(), "unknown")
	s.must(err)
	s.same("unknown tenant", none, timer.Stats{})
}

func tenantPages(s *suite) {
	for i := range 5 {
		s.timers(timer.TenantID(fmt.Sprint("tenant-", i)), i+1, noon)
	}
	s.timers("gone", 1, noon.Add(-time.Hour))
	s.reach(noon.Add(-time.Hour), 10)
	s.same("purged", s.sweep(noon, 10), 1)
	var after timer.TenantID
	var counts []int64
	for _, want := range []int{2, 2, 1, 0} {
		page, err := s.store.Tenants(s.Context(), after, 2)
		s.must(err)
		s.same("page", len(page), want)
		for _, c := range page {
			if c.TenantID <= after {
				s.Errorf("%s after %s", c.TenantID, after)
			}
			after = c.TenantID
			counts = append(counts, c.Scheduled)
		}
	}
	s.same("counts", counts, []int64{1, 2, 3, 4, 5})
}
