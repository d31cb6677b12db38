package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func reachLimit(s *suite) {
	s.timers("acme", 10, noon)
	s.same("before the first is due", len(s.reach(noon.Add(-time.Millisecond), 100)), 0)
	s.same("limit 0", len(s.reach(noon.Add(time.Hour), 0)), 0)
	s.same("four are due", len(s.reach(noon.Add(3*time.Millisecond), 100)), 4)
	s.same("limit 2", len(s.reach(noon.Add(time.Hour), 2)), 2)
	s.same("as many as the limit", len(s.reach(noon.Add(time.Hour), 4)), 4)
	s.same("none left", len(s.reach(noon.Add(time.Hour), 4)), 0)
}

func reachOldest(s *suite) {
	s.timers("acme", 100, noon)
	for i := range 10 {
		var due []time.Time
		for _, e := range s.reach(noon.Add(time.Hour), 10) {
			due = append(due, e.DueAt)
		}
		slices.SortFunc(due, time.Time.Compare)
		first := noon.Add(time.Duration(i*10) * time.Millisecond)
		s.same(fmt.Sprint("batch ", i), []time.Time{due[0], due[9]}, []time.Time{first, first.Add(9 * time.Millisecond)})
	}
}

func reachOnce(s *suite) {
	s.timers("acme", 3, noon)
	s.must(s.store.Update(s.Context(), func(tx timer.Tx) error {
		for _, want := range []int{2, 1, 0} {
			entries, err := tx.Reach(s.Context(), noon.Add(time.Second), 2, nil)
			s.must(err)
			s.same("in one transaction", len(entries), want)
		}
		return nil
	}))
	s.same("later", len(s.reach(noon.Add(time.Hour), 10)), 0)
	e := s.get(key("acme", "call-000000"))
	s.same("reached", []any{e.State, e.ReachedAt}, []any{timer.Reached, noon.Add(time.Second)})
}

func reachConcurrently(s *suite) {
	const tenants, each, pollers = 7, 100, 6
	for i := range tenants {
		s.timers(timer.TenantID(fmt.Sprint("tenant-", i)), each, noon)
	}
	got := make(chan []timer.Entry)
	var running sync.WaitGroup
	for range pollers {
		running.Go(func() {
			for {
				entries := s.reach(noon.Add(time.Hour), 17)
				if len(entries) == 0 {
					return
				}
				got <- entries
			}
		})
	}
	go func() { running.Wait(); close(got) }()
	times := make(map[timer.Key]int)
	for entries := range got {
		for _, e := range entries {
			times[e.Key]++
		}
	}
	s.same("timers", len(times), tenants*each)
	for k, n := range times {
		if n > 1 {
			s.Errorf("%s came %d times", k, n)
		}
	}
}

func reachSkips(s *suite) {
	stays, moved, canceled, again := key("acme", "stays"), key("acme", "moved"), key("acme", "canceled"), key("acme", "again")
	for _, k := range []timer.Key{stays, moved, canceled, again} {
		s.schedule(schedule(k, 1, noon))
	}
	s.schedule(schedule(moved, 2, noon.Add(time.Hour)))
	s.cancel(cancel(canceled, 2), cancel(again, 2))
	s.schedule(schedule(again, 3, noon.Add(time.Millisecond)))
	s.same("at noon", keys(s.reach(noon, 10)), []timer.Key{stays})
	s.same("a little later", keys(s.reach(noon.Add(time.Millisecond), 10)), []timer.Key{again})
	s.same("an hour later", keys(s.reach(noon.Add(time.Hour), 10)), []timer.Key{moved})
}

// byTenant counts entries, and checks that each tenant's are its oldest: the
// timers of a suite's tenant are due in the order of their service calls.
func (s *suite) byTenant(entries []timer.Entry, before map[timer.TenantID]int) map[timer.TenantID]int {
	s.Helper()
	counts := make(map[timer.TenantID]int)
	slices.SortFunc(entries, func(a, b timer.Entry) int { return cmp.Compare(a.ServiceCallID, b.ServiceCallID) })
	for _, e := range entries {
		n := counts[e.TenantID] + before[e.TenantID]
		if want := timer.ServiceCallID(fmt.Sprintf("call-%06d", n)); e.ServiceCallID != want {
			s.Errorf("%s, but %s of the tenant is due longer", e.Key, want)
		}
		counts[e.TenantID]++
	}
	return counts
}

func reachShares(s *suite) {
	s.timers("old", 100, noon)
	s.timers("middle", 100, noon.Add(time.Minute))
	s.timers("young", 100, noon.Add(2*time.Minute))
	before := make(map[timer.TenantID]int)
	for range 3 {
		got := s.byTenant(s.reach(noon.Add(time.Hour), 30), before)
		s.same("shares", got, map[timer.TenantID]int{"old": 10, "middle": 10, "young": 10})
		for tenant, n := range got {
			before[tenant] += n
		}
	}
}

// reachSmallTenants has one tenant with thousands of timers that are due longer
// than those of 300 tenants with one each. All of them have a share, so 301
// tenants take four batches of 100.
func reachSmallTenants(s *suite) {
	const small, limit = 300, 100
	s.timers("great", 2500, noon)
	var commands []timer.ScheduleTimer
	for i := range small {
		commands = append(commands, schedule(key(timer.TenantID(fmt.Sprint("small-", i)), "call-000000"), 1, noon.Add(time.Minute)))
	}
	s.schedule(commands...)
	served := 0
	for range (small + 1 + limit - 1) / limit {
		entries := s.reach(noon.Add(time.Hour), limit)
		s.same("batch", len(entries), limit)
		for _, e := range entries {
			if e.TenantID != "great" {
				served++
			}
		}
	}
	s.same("small tenants served", served, small)
}

func reachIdleTenants(s *suite) {
	var commands []timer.ScheduleTimer
	for i := range 200 {
		commands = append(commands, schedule(key(timer.TenantID(fmt.Sprintf("idle-%03d", i)), "call"), 1, noon.Add(24*time.Hour)))
	}
	s.schedule(commands...)
	s.timers("a", 50, noon)
	s.timers("z", 50, noon.Add(time.Minute))
	for i := range 2 {
		before := map[timer.TenantID]int{"a": i * 10, "z": i * 10}
		got := s.byTenant(s.reach(noon.Add(time.Hour), 20), before)
		s.same("shares", got, map[timer.TenantID]int{"a": 10, "z": 10})
	}
}

// reachNeverEarly has a tenant whose share is greater than what it has due.
func reachNeverEarly(s *suite) {
	s.timers("old", 100, noon)
	s.timers("young", 3, noon.Add(time.Minute))
	s.schedule(schedule(key("young", "call-000003"), 1, noon.Add(time.Hour+time.Millisecond)))
	got := s.byTenant(s.reach(noon.Add(time.Hour), 30), nil)
	s.same("shares", got, map[timer.TenantID]int{"old": 27, "young": 3})
}

func reachLeftover(s *suite) {
	s.timers("old", 100, noon)
	s.timers("young", 100, noon.Add(time.Minute))
	s.timers("small", 1, noon.Add(2*time.Minute))
	got := s.byTenant(s.reach(noon.Add(time.Hour), 30), nil)
	s.same("shares", got, map[timer.TenantID]int{"old": 19, "young": 10, "small": 1})
}

// reachManyTenants has more tenants with due timers than a batch holds: each has
// its turn before any has a second one, but for the oldest.
func reachManyTenants(s *suite) {
	const tenants, limit = 25, 10
	for i := range tenants {
		s.timers(timer.TenantID(fmt.Sprintf("tenant-%02d", i)), 2, noon.Add(time.Duration(i)*time.Second))
	}
	seen := make(map[timer.TenantID]int)
	for range 3 {
		for _, e := range s.reach(noon.Add(time.Hour), limit) {
			seen[e.TenantID]++
		}
	}
	s.same("tenants served in three batches", len(seen), tenants)
}

func nextDue(s *suite) {
	after := func(what string, after, want time.Time) {
		s.Helper()
		got, err := s.store.NextDue(s.Context(), after)
		s.must(err)
		s.same(what, got, want)
	}
	want := func(what string, want time.Time) {
		s.Helper()
		after(what, time.Time{}, want)
	}
	want("nothing waits", time.Time{})
	s.schedule(schedule(key("acme", "later"), 1, noon.Add(time.Hour)), schedule(key("beta", "sooner"), 1, noon.Add(time.Minute)))
	s.cancel(cancel(key("acme", "tombstone"), 1))
	want("two wait", noon.Add(time.Minute))
	after("before the first", noon.Add(time.Minute-time.Nanosecond), noon.Add(time.Minute))
	after("after the first", noon.Add(time.Minute), noon.Add(time.Hour))
	after("after the last", noon.Add(time.Hour), time.Time{})
	s.schedule(schedule(key("acme", "later"), 2, noon))
	want("moved", noon)
	s.reach(noon, 1)
	want("reached", noon.Add(time.Minute))
	s.cancel(cancel(key("beta", "sooner"), 2))
	want("canceled", time.Time{})
}
