package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// countTimeout is how long the count of a tenant's timers may take while a
// transaction of the host's is open, which may have the only connection.
const countTimeout = time.Second

// allowed are the indexes of commands that the quotas of their tenants allow.
type allowed map[timer.TenantID][]int

// allow asks the quotas. The error wraps [timer.ErrOverQuota] if a tenant may not have
// so many timers; then nothing is taken of any quota.
func (j Joined) allow(ctx context.Context, commands []timer.ScheduleTimer) (allowed, error) {
	quotas := j.timers.app.opt.Quotas
	if quotas == nil {
		return nil, nil
	}
	counting, cancel := ctx, func() {}
	if j.joins {
		counting, cancel = context.WithTimeout(ctx, countTimeout)
	}
	defer cancel()
	of := make(map[timer.TenantID][]timer.ScheduleTimer)
	all := make(allowed)
	for i, c := range commands {
		of[c.TenantID] = append(of[c.TenantID], c)
		all[c.TenantID] = append(all[c.TenantID], i)
	}
	asked := make(allowed)
	for tenant, own := range of {
		exceeded, err := quotas.Allow(counting, j.timers.app.store.Timers(), false, own...)
		switch {
		case err != nil && j.joins && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = fmt.Errorf("schedule %s: %w: its timers can't be counted while this transaction is open", own[0].Key, timer.ErrOverQuota)
		case err != nil:
			err = fmt.Errorf("schedule %s: count the timers of its tenant: %w", own[0].Key, err)
		case exceeded != nil:
			err = fmt.Errorf("schedule %s: %w: %s", own[0].Key, timer.ErrOverQuota, exceeded.Detail)
		}
		if err != nil {
			j.done(asked, nil)
			return nil, err
		}
		asked[tenant] = all[tenant]
	}
	return all, nil
}

// done says what became of the commands: no results, if they failed.
func (j Joined) done(of allowed, results []timer.Result) {
	for tenant, commands := range of {
		var own []timer.Result
		if results != nil {
			for _, i := range commands {
				own = append(own, results[i])
			}
		}
		j.timers.app.opt.Quotas.Done(tenant, len(commands), own...)
	}
}
