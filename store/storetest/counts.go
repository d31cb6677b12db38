package storetest

import (
	"fmt"
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
