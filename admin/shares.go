package admin

import (
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A shares bounds how many requests of a kind run at once, and how many of them have the
// tokens of one tenant. It is safe for concurrent use.
type shares struct {
	most, mostOfTenant int
	full, fullOfTenant huma.StatusError // why another request can't run

	mu  sync.Mutex
	all int
	its map[timer.TenantID]int // requests with the tokens of tenants
}

// begin adds a request with a token of a tenant, or of all tenants if that is empty, unless
// there are too many. The caller calls end when the request has ended.
func (s *shares) begin(tenant timer.TenantID) (end func(), refused huma.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case tenant != "" && s.its[tenant] >= s.mostOfTenant:
		return nil, s.fullOfTenant
	case s.all >= s.most:
		return nil, s.full
	case s.its == nil:
		s.its = make(map[timer.TenantID]int)
	}
	s.all++
	s.its[tenant]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		s.its[tenant]--
	}, nil
}
