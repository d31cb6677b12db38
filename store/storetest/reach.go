package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
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

// reachNeverEarly has a tenant whose share is greater than the number of its due timers.
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
// than the others.
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

// expiring is a command for a timer that is due at noon and expires at a time.
func expiring(k timer.Key, age int64, expiresAt time.Time) timer.ScheduleTimer {
	c := schedule(k, age, noon)
	c.ExpiresAt = expiresAt
	return c
}

// expires has timers that are marked before they expire, when they do, and after.
func expires(s *suite) {
	at := noon.Add(time.Minute)
	last, now, over, never := key("acme", "last"), key("acme", "now"), key("beta", "over"), key("acme", "never")
	s.schedule(expiring(last, 1, at.Add(time.Millisecond)), expiring(now, 1, at), expiring(over, 1, noon.Add(time.Millisecond)), schedule(never, 1, noon))
	events := s.fire(at, 10)
	slices.SortFunc(events, func(a, b timer.DueTimeReached) int { return a.Key.Compare(b.Key) })
	wanted := map[timer.Key]timer.State{last: timer.Reached, now: timer.Expired, over: timer.Expired, never: timer.Reached}
	for _, e := range events {
		entry := s.get(e.Key)
		s.same(e.Key.String(), []timer.State{e.State(), entry.State}, []timer.State{wanted[e.Key], wanted[e.Key]})
		s.same("marked at", []time.Time{e.ReachedAt, entry.ReachedAt}, []time.Time{at, at})
		s.same("expires at", e.ExpiresAt, entry.ExpiresAt)
	}
	for _, row := range s.head(0, 10) {
		m, err := envelope.Decode(row.Message.Payload)
		s.must(err)
		k := timer.Key{TenantID: m.TenantID, ServiceCallID: timer.ServiceCallID(m.AggregateID)}
		want := map[timer.State]string{timer.Reached: envelope.TypeDueTimeReached, timer.Expired: envelope.TypeTimerExpired}[wanted[k]]
		s.same("event of "+k.String(), []string{m.Type, row.Message.Metadata.Get(envelope.HeaderType)}, []string{want, want})
		s.same("its id", m.ID, envelope.EventID(s.get(k).Event()))
	}
	s.same("counts", s.stats().Counts, timer.Counts{Reached: 2, Expired: 2})
	s.same("listed", keys(s.list("acme", timer.Filter{State: timer.Expired}).Entries), []timer.Key{now})
	tenants, err := s.store.Tenants(s.Context(), "", 10)
	s.must(err)
	s.same("tenants", tenants, []timer.TenantCounts{{TenantID: "acme", Counts: timer.Counts{Reached: 2, Expired: 1}}, {TenantID: "beta", Counts: timer.Counts{Expired: 1}}})
	s.same("once", len(s.reach(at.Add(time.Hour), 10)), 0)

	forgotten, err := s.store.Forget(s.Context(), "beta", time.Time{}, 10)
	s.must(err)
	s.same("forgotten", forgotten, timer.Counts{Expired: 1})
	s.same("not over long enough", s.sweep(at, 10), 0)
	s.same("purged", s.sweep(at.Add(time.Millisecond), 10), 3)
	s.same("counts", s.stats().Counts, timer.Counts{})
}

// expiresShared has timers expire in batches that tenants share.
func expiresShared(s *suite) {
	var commands []timer.ScheduleTimer
	for _, tenant := range []timer.TenantID{"acme", "beta"} {
		for _, call := range []timer.ServiceCallID{"a", "b", "c", "d"} {
			commands = append(commands, expiring(key(tenant, call), 1, noon.Add(time.Second)))
		}
	}
	s.schedule(commands...)
	got := make(map[timer.State]int)
	for range 8 { // with an allowance a call may return fewer than the limit
		for _, e := range s.reachAllowed(noon.Add(time.Minute), 3, allowance{"acme": 100}.of) {
			got[e.State]++
		}
	}
	s.same("states", got, map[timer.State]int{timer.Expired: 8})
}

// firedExpired brings in events of timers that expired.
func firedExpired(s *suite) {
	at := noon.Add(time.Minute)
	event := func(call timer.ServiceCallID, expiresAt time.Time) timer.DueTimeReached {
		return timer.DueTimeReached{Key: key("acme", call), ID: "event-" + string(call), DueAt: noon, ExpiresAt: expiresAt, ReachedAt: at}
	}
	s.schedule(schedule(key("acme", "scheduled"), 1, noon.Add(time.Hour)), expiring(key("acme", "reached"), 1, at.Add(time.Hour)), schedule(key("acme", "canceled"), 1, noon))
	s.cancel(cancel(key("acme", "canceled"), 2), cancel(key("acme", "tombstone"), 2))
	expired := []timer.ServiceCallID{"scheduled", "canceled", "tombstone", "absent"}
	events := []timer.DueTimeReached{event("reached", at.Add(time.Hour))}
	for _, call := range expired {
		events = append(events, event(call, at))
	}
	s.same("changed", s.fired(keep, events...), 5)
	s.same("changed again", s.fired(keep, events...), 0)
	for _, call := range expired {
		e := s.get(key("acme", call))
		s.same(string(call), []any{e.State, e.DueAt, e.ExpiresAt, e.ReachedAt, e.CanceledAt}, []any{timer.Expired, noon, at, at, time.Time{}})
		s.same("scheduled again", s.schedule(schedule(e.Key, 1e15, noon)), []timer.Outcome{timer.WasExpired})
	}
	s.same("counts", s.stats().Counts, timer.Counts{Reached: 1, Expired: 4})
	s.same("nothing fires", len(s.fire(noon.Add(time.Hour), 10)), 0)
}
