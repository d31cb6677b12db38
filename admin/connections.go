package admin

import (
	"fmt"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	maxListeners       = 50
	maxTenantListeners = 10 // of them with the token of one tenant
)

// These say why another client can't listen.
var (
	errTenantListens = huma.Error429TooManyRequests(fmt.Sprintf("%d connections of your tenant listen already: end one first", maxTenantListeners))
	errAllListen     = huma.Error503ServiceUnavailable("too many connections listen already: try again later")
)

// Connections bounds how many clients listen at once. The zero value is ready to use, and
// safe for concurrent use.
type connections struct {
	mu     sync.Mutex
	owners []timer.TenantID // one for each client: its token's tenant; empty: all tenants
}

// begin adds a client, unless there are too many. The caller calls end when the client has
// gone.
func (c *connections) begin(owner timer.TenantID) (end func(), refused huma.StatusError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	its := 0
	for _, other := range c.owners {
		if other == owner {
			its++
		}
	}
	switch {
	case owner != "" && its >= maxTenantListeners:
		return nil, errTenantListens
	case len(c.owners) >= maxListeners:
		return nil, errAllListen
	}
	c.owners = append(c.owners, owner)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.owners, owner)
		c.owners = slices.Delete(c.owners, i, i+1)
	}, nil
}
