package admin

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A Database is the one that is served.
type Database struct {
	ID   string `json:"id" doc:"That it was given when it was made."`
	Name string `json:"name" doc:"What it is and where."`
}

// TenantStats are counts of one tenant.
type TenantStats struct {
	Tenant
	Overdue       int64  `json:"overdue" doc:"Scheduled timers that were due before now; 10000 may stand for more."`
	OldestOverdue string `json:"oldestOverdue,omitempty" format:"date-time"`
}

type (
	databaseOutput    struct{ Body Database }
	tenantStatsOutput struct{ Body TenantStats }
)

// addDatabase adds what tells clients which database they ask, so that they do not take
// it for another one.
func (a *api) addDatabase(identity func(context.Context) (id, name string, err error)) {
	add(a, "/v1/database", "get-database", "Which database is served", ofAll, func(ctx context.Context, _ *struct{}) (*databaseOutput, error) {
		if identity == nil {
			return nil, huma.Error404NotFound("this server does not say which database it serves")
		}
		id, name, err := identity(ctx)
		return &databaseOutput{Database{id, name}}, err
	})
	add(a, "/v1/tenants/{tenant}", "get-tenant", "How many timers a tenant has", ofTenant, a.tenantStats)
}

func (a *api) tenantStats(ctx context.Context, in *struct{ TenantPath }) (*tenantStatsOutput, error) {
	tenant := timer.TenantID(in.Tenant)
	c, err := a.timers.Counts(ctx, tenant)
	if err != nil {
		return nil, err
	}
	o, err := a.timers.Overdue(ctx, tenant, time.Now())
	return &tenantStatsOutput{TenantStats{Tenant{tenant, Counts(c)}, o.Timers, stamp(o.Oldest)}}, err
}
