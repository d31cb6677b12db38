package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func getNothing(s *suite) {
	_, err := s.store.Get(s.Context(), key("acme", "call-1"))
	if !errors.Is(err, timer.ErrNotFound) || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		s.Errorf("get: %v, want ErrNotFound alone", err)
	}
}

func (s *suite) list(tenant timer.TenantID, f timer.Filter) timer.Page {
	s.Helper()
	f.TenantID = tenant
	page, err := s.store.List(s.Context(), f)
	s.must(err)
	return page
}

func listPages(s *suite) {
	s.timers("acme", 250, noon)
	s.timers("beta", 3, noon)
	after := ""
	for _, want := range []int{100, 100, 50} {
		page := s.list("acme", timer.Filter{After: after})
		s.same("page", len(page.Entries), want)
		for _, e := range page.Entries {
			if e.TenantID != "acme" || string(e.ServiceCallID) <= after {
				s.Errorf("%s after %s of acme", e.Key, after)
			}
			after = string(e.ServiceCallID)
		}
		if want == 100 {
			s.same("next", page.Next, after)
		} else {
			s.same("next", page.Next, "")
		}
	}
	s.same("after the last", s.list("acme", timer.Filter{After: after}), timer.Page{})
	page := s.list("acme", timer.Filter{Limit: 7, After: "call-000009"})
	s.same("page of 7", len(page.Entries), 7)
	s.same("first", page.Entries[0].ServiceCallID, timer.ServiceCallID("call-000010"))
	s.same("as many as there are", s.list("beta", timer.Filter{Limit: 3}).Next, "")

	s.timers("great", 1100, noon)
	s.same("greatest page", len(s.list("great", timer.Filter{Limit: 5000}).Entries), 1000)
}

// calls returns the service calls of all pages of a list.
func (s *suite) calls(f timer.Filter) (calls []timer.ServiceCallID) {
	s.Helper()
	s.must(timer.EachPage(s.Context(), &f, s.store.List, func(entries []timer.Entry) error {
		for _, e := range entries {
			calls = append(calls, e.ServiceCallID)
		}
		return nil
	}))
	return calls
}

// listFilters lists timers by each filter and by several, in pages of two.
func listFilters(s *suite) {
	s.timers("acme", 6, noon) // one a millisecond
	s.same("reached", len(s.reach(noon.Add(time.Millisecond), 10)), 2)
	related := schedule(key("acme", "related"), 1, noon.Add(4*time.Millisecond))
	related.CorrelationID = "request-7"
	s.schedule(related)
	for _, call := range []timer.ServiceCallID{"order-1", "order-16zzz", "order-17", "order-17.a", "order-17.z", "order-170", "order-18", "-", ".a", "z", "zz"} {
		s.schedule(schedule(key("acme", call), 1, noon.Add(time.Hour)))
	}
	s.cancel(cancel(key("acme", "call-000004"), 2), cancel(key("acme", "order-17.z"), 2), cancel(key("acme", "tombstone"), 1))
	ms := func(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Millisecond))) }
	for _, c := range []struct {
		filter timer.Filter
		want   []timer.ServiceCallID
	}{
		{timer.Filter{State: timer.Reached}, []timer.ServiceCallID{"call-000000", "call-000001"}},
		{timer.Filter{State: timer.Canceled}, []timer.ServiceCallID{"call-000004", "order-17.z", "tombstone"}},
		{timer.Filter{State: timer.Scheduled, DueBefore: noon.Add(time.Hour)}, []timer.ServiceCallID{"call-000002", "call-000003", "call-000005", "related"}},
		{timer.Filter{DueFrom: ms(3), DueBefore: ms(5)}, []timer.ServiceCallID{"call-000003", "call-000004", "related"}},
		{timer.Filter{DueFrom: ms(4.5), DueBefore: ms(10)}, []timer.ServiceCallID{"call-000005"}},
		{timer.Filter{DueBefore: ms(1)}, []timer.ServiceCallID{"call-000000"}},
		{timer.Filter{CorrelationID: "request-7"}, []timer.ServiceCallID{"related"}},
		{timer.Filter{State: timer.Scheduled, DueFrom: ms(3), DueBefore: ms(5), CorrelationID: "request-7", After: "r"}, []timer.ServiceCallID{"related"}},
		{timer.Filter{State: timer.Reached, DueFrom: ms(3)}, nil},
		{timer.Filter{Prefix: "order-17"}, []timer.ServiceCallID{"order-17", "order-17.a", "order-17.z", "order-170"}},
		{timer.Filter{Prefix: "order-17."}, []timer.ServiceCallID{"order-17.a", "order-17.z"}},
		{timer.Filter{Prefix: "order-17.", State: timer.Scheduled}, []timer.ServiceCallID{"order-17.a"}},
		{timer.Filter{Prefix: "order-17.a"}, []timer.ServiceCallID{"order-17.a"}},
		{timer.Filter{Prefix: "order-19"}, nil},
		{timer.Filter{Prefix: "-"}, []timer.ServiceCallID{"-"}},
		{timer.Filter{Prefix: "."}, []timer.ServiceCallID{".a"}},
		{timer.Filter{Prefix: "z"}, []timer.ServiceCallID{"z", "zz"}},
	} {
		c.filter.TenantID, c.filter.Limit = "acme", 2
		s.same(fmt.Sprintf("%+v", c.filter), s.calls(c.filter), c.want)
	}
	_, err := s.store.List(s.Context(), timer.Filter{TenantID: "acme", Prefix: "order 17"})
	if !errors.Is(err, timer.ErrInvalid) {
		s.Errorf("a prefix with a space: %v", err)
	}
}

// listWalks lists two timers among many of another state.
func listWalks(s *suite) {
	const n = 2*timer.PageWalk + 10
	for i := range n / 2005 {
		s.timers(timer.TenantID(fmt.Sprint("other-", i)), 1, noon)
	}
	s.timers("great", n, noon)
	s.cancel(cancel(key("great", "call-000005"), 2), cancel(key("great", timer.ServiceCallID(fmt.Sprintf("call-%06d", n-1))), 2))
	var found []timer.Key
	pages := 0
	f := timer.Filter{TenantID: "great", State: timer.Canceled}
	s.must(timer.EachPage(s.Context(), &f, s.store.List, func(entries []timer.Entry) error {
		found = append(found, keys(entries)...)
		pages++
		return nil
	}))
	s.same("found", found, []timer.Key{key("great", "call-000005"), key("great", timer.ServiceCallID(fmt.Sprintf("call-%06d", n-1)))})
	s.same("pages", pages, 3)
}

func correlated(s *suite) {
	for _, k := range []timer.Key{key("acme", "call-1"), key("acme", "call-2"), key("beta", "call-1")} {
		c := schedule(k, 1, noon)
		c.CorrelationID = "request-7"
		s.schedule(c)
	}
	s.schedule(schedule(key("acme", "call-3"), 1, noon))
	page, err := s.store.List(s.Context(), timer.Filter{CorrelationID: "request-7", Limit: 10})
	s.must(err)
	s.same("found", len(page.Entries), 3)
	for _, e := range page.Entries {
		s.same("correlation", e.CorrelationID, "request-7")
	}
	page, err = s.store.List(s.Context(), timer.Filter{CorrelationID: "request-7", Limit: 2})
	s.must(err)
	s.same("at most 2", len(page.Entries), 2)
	page, err = s.store.List(s.Context(), timer.Filter{CorrelationID: "request-8", Limit: 10})
	s.must(err)
	s.same("unknown", len(page.Entries), 0)
	for _, unclear := range []timer.Filter{
		{},
		{Limit: 10},
		{After: "call-1"},
		{State: timer.Scheduled},
		{DueFrom: noon},
		{DueFrom: noon, DueBefore: noon.Add(time.Hour)},
		{CorrelationID: "request-7", State: timer.Scheduled},
		{CorrelationID: "request-7", DueBefore: noon},
		{CorrelationID: "request-7", After: "call-1"},
	} {
		if page, err := s.store.List(s.Context(), unclear); !errors.Is(err, timer.ErrInvalid) || len(page.Entries) > 0 {
			s.Errorf("of all tenants by %+v: %v, want ErrInvalid", unclear, err)
		}
	}
}

// registeredBefore has a command that was handled an hour after its producer sent it.
func registeredBefore(s *suite) {
	sent := noon.Add(-time.Hour)
	s.schedule(schedule(key("acme", "call"), sent.UnixMilli(), noon))
	count := func(before time.Time, limit int) timer.Unprotected {
		s.Helper()
		u, err := s.store.RegisteredBefore(s.Context(), before, limit)
		s.must(err)
		return u
	}
	s.same("before it was sent", count(sent, 10), timer.Unprotected{Before: sent})
	s.same("after it was sent", count(noon.Add(-time.Minute), 10), timer.Unprotected{Before: noon.Add(-time.Minute), Timers: 1, Oldest: sent})
	s.same("as many as are looked at", count(noon, 1), timer.Unprotected{Before: noon, Timers: 1, Oldest: sent, More: true})
}

func stats(s *suite) {
	s.same("empty", s.stats(), timer.Stats{})
	s.timers("acme", 6, noon)
	s.timers("beta", 4, noon.Add(time.Hour))
	s.cancel(cancel(key("acme", "call-000005"), 2), cancel(key("acme", "tombstone"), 1))
	s.fire(noon.Add(time.Minute), 2)
	s.fire(noon.Add(time.Hour), 4)
	rows := s.head(0, 10)
	s.must(s.store.Delete(s.Context(), rows[0].Place))
	s.must(s.store.Park(s.Context(), noon, rows[1].Place, "refused"))
	s.same("counts", s.stats(), timer.Stats{
		Counts: timer.Counts{Scheduled: 3, Reached: 6, Canceled: 2}, NextDue: noon.Add(time.Hour + time.Millisecond),
		DueAt:  noon.Add(2 * time.Millisecond),
		Outbox: 4, Oldest: noon.Add(time.Hour), Parked: 1,
	})
}

// sweep purges until there is no more, and returns how many were deleted.
func (s *suite) sweep(before time.Time, limit int) (deleted int) {
	s.Helper()
	for {
		n, err := s.store.Purge(s.Context(), before, limit)
		s.must(err)
		if n > limit {
			s.Errorf("deleted %d of %d", n, limit)
		}
		deleted += n
		if n < limit {
			return deleted
		}
	}
}

func purge(s *suite) {
	s.timers("acme", 4, noon)
	s.timers("beta", 2, noon.Add(-time.Hour))
	s.reach(noon.Add(-time.Minute), 10)                                            // both of beta
	s.reach(noon.Add(time.Millisecond), 10)                                        // two of acme
	s.cancel(cancel(key("acme", "call-000002"), 2), cancel(key("acme", "old"), 1)) // a second after noon
	s.same("nothing is over long enough", s.sweep(noon.Add(-time.Minute), 100), 0)
	s.same("those of beta", s.sweep(noon.Add(-time.Minute+time.Millisecond), 100), 2)
	s.same("those that were reached", s.sweep(noon.Add(2*time.Millisecond), 100), 2)
	s.same("those that were canceled", s.sweep(noon.Add(time.Second+time.Millisecond), 100), 2)
	s.same("what waits stays", s.sweep(noon.Add(1000*time.Hour), 100), 0)
	s.same("left", s.stats(), timer.Stats{Counts: timer.Counts{Scheduled: 1}, NextDue: noon.Add(3 * time.Millisecond)})
	s.same("forgotten: the key is new again", s.schedule(schedule(key("acme", "call-000002"), 1, noon)),
		[]timer.Outcome{timer.DidSchedule})
}

func purgeSteps(s *suite) {
	const n = 107
	s.timers("acme", n, noon)
	s.reach(noon.Add(time.Minute), n/2) // the first half
	s.reach(noon.Add(time.Hour), n)
	deleted, err := s.store.Purge(s.Context(), noon.Add(2*time.Hour), n/2)
	s.must(err)
	s.same("one step", deleted, n/2)
	for _, e := range s.list("acme", timer.Filter{Limit: n}).Entries {
		s.same("left are the younger", e.ReachedAt, noon.Add(time.Hour))
	}
	s.same("many steps", s.sweep(noon.Add(2*time.Hour), 10), n-n/2)
	s.same("empty", s.sweep(noon.Add(2*time.Hour), 1), 0)
}

func purgeRevived(s *suite) {
	k := key("acme", "call-1")
	s.cancel(cancel(k, 1))
	s.schedule(schedule(k, 2, noon.Add(24*time.Hour)))
	s.same("scheduled again", s.sweep(noon.Add(48*time.Hour), 10), 0)
	_, err := s.store.Cancel(s.Context(), noon.Add(time.Hour), cancel(k, 3))
	s.must(err)
	s.same("canceled less long ago", s.sweep(noon.Add(time.Minute), 10), 0)
	_, err = s.store.Cancel(s.Context(), noon.Add(2*time.Hour), cancel(k, 4))
	s.must(err)
	s.same("kept as long as the newest command may have to supersede others", s.sweep(noon.Add(time.Hour+time.Minute), 10), 0)
	s.same("canceled long ago", s.sweep(noon.Add(3*time.Hour), 10), 1)
}

// countsAreRight compares the counts of a store with its timers.
func (s *suite) countsAreRight() {
	s.Helper()
	tenants, err := s.store.Tenants(s.Context(), "", 1000)
	s.must(err)
	var sum timer.Counts
	for _, kept := range tenants {
		sum = sum.Add(kept.Counts)
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
	f := timer.Filter{TenantID: tenant, Limit: timer.MaxPage}
	s.must(timer.EachPage(s.Context(), &f, s.store.List, func(entries []timer.Entry) error {
		for _, e := range entries {
			c.Count(e.State, 1)
		}
		return nil
	}))
	return c
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
