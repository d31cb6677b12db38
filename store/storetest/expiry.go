package storetest

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

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

	forgotten, err := s.store.Forget(s.Context(), "beta", 10)
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
