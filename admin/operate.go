package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A Service is the running service that people change, with the instances that share its
// database. An app.App is one.
type Service interface {
	// Pause pauses firing of a tenant, or of all tenants, on all instances that share the
	// database.
	Pause(ctx context.Context, p timer.Pause) error
	// Resume ends the pause of a tenant, or the pause of all tenants.
	Resume(ctx context.Context, tenant timer.TenantID) error
	// Retry puts parked events back into the outbox, and returns how many.
	Retry(ctx context.Context, seqs ...int64) (int, error)
	// Refire publishes events again, until ctx ends.
	Refire(ctx context.Context, which timer.Refire) (timer.Refired, error)
	// Forget deletes all timers and parked events of a tenant. It returns how many timers,
	// even if there is an error.
	Forget(ctx context.Context, tenant timer.TenantID) (timer.Counts, error)
	// Validate returns why a command would become a dead letter, or nil.
	Validate(command *message.Message) error
}

const (
	operateTimeout = 5 * time.Second
	forgetTimeout  = 20 * time.Second // after which a request is answered, and the rest stays
)

// errNoService is a refusal.
var errNoService = huma.Error503ServiceUnavailable("this server has no service to change: it only reads")

// noParked says that there is no parked event with a number.
func noParked(seq string) error {
	return huma.Error404NotFound("there is no such parked event: " + timer.Quote(seq))
}

// errMore says that not all could be changed in time.
var errMore = huma.Error503ServiceUnavailable("not all: ask again")

// pause pauses firing of a tenant, or of all tenants, until a time, or without an end if that
// is zero. It needs the token of all tenants, because with its own token a tenant could also
// resume a pause of the operator.
func (a *actions) pause(ctx context.Context, tenant timer.TenantID, until time.Time) error {
	return a.operate(ctx, operateTimeout, "pause firing", "", string(cmp.Or(tenant, allTenants)), func(ctx context.Context) (string, error) {
		p := timer.Pause{TenantID: tenant, Until: until, By: accessOf(ctx).who}
		return stamp(until), a.Service.Pause(ctx, p)
	})
}

// resume ends the pause of a tenant, or the pause of all tenants.
func (a *actions) resume(ctx context.Context, tenant timer.TenantID) error {
	return a.operate(ctx, operateTimeout, "resume firing", "", string(cmp.Or(tenant, allTenants)), func(ctx context.Context) (string, error) {
		return "", a.Service.Resume(ctx, tenant)
	})
}

// allTenants stands for all tenants in the audit log.
const allTenants = "all tenants"

// forget deletes all timers and parked events of a tenant. It returns how many timers, even
// if there is an error, which is errMore if there was no time for all. It needs the token of
// all tenants.
func (a *actions) forget(ctx context.Context, tenant timer.TenantID) (sum timer.Counts, err error) {
	err = a.operate(ctx, forgetTimeout, "forget tenant", "", string(tenant), func(ctx context.Context) (string, error) {
		sum, err = a.Service.Forget(ctx, tenant)
		if errors.Is(err, context.DeadlineExceeded) && sum.Total() > 0 {
			err = errMore
		}
		return count(sum.Total(), "timer") + " deleted", err
	})
	return sum, err
}

// nodes returns the instances that share the database.
func (a *actions) nodes(ctx context.Context) ([]timer.Node, error) {
	if a.Operator == nil {
		return nil, errNoService
	}
	return a.Operator.Nodes(ctx)
}

// operate changes the service, within a timeout.
func (a *actions) operate(ctx context.Context, timeout time.Duration, what string, tenant timer.TenantID, target string, change func(context.Context) (string, error)) error {
	return a.do(ctx, what, tenant, target, func() (string, error) {
		if a.Service == nil || a.Operator == nil {
			return "", errNoService
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return change(ctx)
	})
}
