package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An allowance says how many timers of a tenant may fire; of others all may.
type allowance map[timer.TenantID]int

func (a allowance) of(tenant timer.TenantID) int {
	if n, ok := a[tenant]; ok {
		return n
	}
	return math.MaxInt
}

func allowedOldest(s *suite) {
	s.timers("few", 20, noon)
	s.timers("all", 20, noon.Add(time.Minute))
	before := make(map[timer.TenantID]int)
	for _, want := range []map[timer.TenantID]int{{"few": 7, "all": 20}, {"few": 7}, {"few": 6}, {}} {
		got := s.byTenant(s.reachAllowed(noon.Add(time.Hour), 100, allowance{"few": 7}.of), before)
		s.same("taken", got, want)
		for tenant, n := range got {
			before[tenant] += n
		}
	}
}

// allowedBacklogged has tenants that may have less than their share, as much, and
// more.
func allowedBacklogged(s *suite) {
	may := allowance{"less": 3, "as-much": 10, "more": 15}
	s.timers("less", 100, noon)
	s.timers("as-much", 100, noon.Add(time.Minute))
	s.timers("more", 100, noon.Add(2*time.Minute))
	got := s.byTenant(s.reachAllowed(noon.Add(time.Hour), 30, may.of), nil)
	if got["less"] != 3 || got["as-much"] != 10 || got["more"] < 10 || got["more"] > 15 {
		s.Errorf("taken %v", got)
	}
}

func allowedNone(s *suite) {
	s.timers("none", 20, noon)
	s.timers("all", 20, noon.Add(time.Minute))
	none := allowance{"none": 0}.of
	s.same("taken", s.byTenant(s.reachAllowed(noon.Add(time.Hour), 100, none), nil), map[timer.TenantID]int{"all": 20})
	s.same("again", len(s.reachAllowed(noon.Add(time.Hour), 100, none)), 0)
	e := s.get(key("none", "call-000000"))
	s.same("state", []any{e.State, e.ReachedAt}, []any{timer.Scheduled, time.Time{}})
	next, err := s.store.NextDue(s.Context(), time.Time{})
	s.must(err)
	s.same("next due", next, noon)
	s.same("allowed later", len(s.reach(noon.Add(time.Hour), 100)), 20)
}

// allowedInTurns has more tenants that may not fire than a batch holds, older
// than those that may.
func allowedInTurns(s *suite) {
	const held, free, limit = 25, 5, 10
	may := make(allowance)
	for i := range held {
		tenant := timer.TenantID(fmt.Sprintf("held-%02d", i))
		may[tenant] = 0
		s.timers(tenant, 3, noon)
	}
	for i := range free {
		s.timers(timer.TenantID(fmt.Sprint("free-", i)), 20, noon.Add(time.Minute))
	}
	got := 0
	for range 2 * free * 20 / limit {
		entries := s.reachAllowed(noon.Add(time.Hour), limit, may.of)
		if len(entries) > limit {
			s.Errorf("%d entries, the limit is %d", len(entries), limit)
		}
		got += len(entries)
	}
	s.same("taken", got, free*20)
}

// allowedFarAway has one tenant that displaces the others and may not fire, and
// one that may, behind many that only wait.
func allowedFarAway(s *suite) {
	const waiting, limit = 3000, 10
	s.timers("a-held", 2*limit, noon)
	s.timers("z-free", 1, noon.Add(time.Minute))
	commands := make([]timer.ScheduleTimer, waiting)
	for i := range commands {
		commands[i] = schedule(key(timer.TenantID(fmt.Sprint("waits-", i)), "call-000000"), 1, noon.Add(24*time.Hour))
	}
	s.schedule(commands...)
	none := allowance{"a-held": 0}.of
	s.same("taken", keys(s.reachAllowed(noon.Add(time.Hour), limit, none)), []timer.Key{key("z-free", "call-000000")})
	for range 3 {
		s.same("again", len(s.reachAllowed(noon.Add(time.Hour), limit, none)), 0)
	}
}
