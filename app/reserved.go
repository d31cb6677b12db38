package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// reserveTimeout is how long the count of a tenant's timers may take while a
// transaction of the host's is open: those on their way to the store, which the count
// waits for, may wait for that transaction.
const reserveTimeout = time.Second

// A reserved is what commands take of the quotas of their tenants. It is ended with
// one call of done or cancel.
type reserved struct {
	tenants []tenantReserved
}

type tenantReserved struct {
	quota.Reservation
	commands []int // which ones are the tenant's
}

// reserve reserves what commands take. The error wraps [timer.ErrOverQuota] if a
// tenant may not have so many; then nothing is reserved.
func (j Joined) reserve(ctx context.Context, commands []timer.ScheduleTimer) (r reserved, err error) {
	a := j.timers.app
	if a.opt.Quotas == nil {
		return r, nil
	}
	reserving, cancel := ctx, func() {}
	if j.joins {
		reserving, cancel = context.WithTimeout(ctx, reserveTimeout)
	}
	defer cancel()
	of := make(map[timer.TenantID]int) // index in r.tenants
	for i, c := range commands {
		n, known := of[c.TenantID]
		if !known {
			n = len(r.tenants)
			of[c.TenantID] = n
			r.tenants = append(r.tenants, tenantReserved{})
		}
		r.tenants[n].commands = append(r.tenants[n].commands, i)
	}
	for n := range r.tenants {
		own := make([]timer.ScheduleTimer, 0, len(r.tenants[n].commands))
		for _, i := range r.tenants[n].commands {
			own = append(own, commands[i])
		}
		var exceeded *quota.Exceeded
		r.tenants[n].Reservation, exceeded, err = a.opt.Quotas.Reserve(reserving, a.store, false, own...)
		switch {
		case err != nil && j.joins && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = fmt.Errorf("schedule %s: %w: its timers can't be counted while this transaction is open", own[0].Key, timer.ErrOverQuota)
		case err != nil:
			err = fmt.Errorf("schedule %s: count the timers of its tenant: %w", own[0].Key, err)
		case exceeded != nil:
			err = fmt.Errorf("schedule %s: %w: %s", own[0].Key, timer.ErrOverQuota, exceeded.Detail)
		}
		if err != nil {
			r.tenants = r.tenants[:n]
			r.cancel()
			return reserved{}, err
		}
	}
	return r, nil
}

// done says what became of the commands.
func (r reserved) done(results []timer.Result) {
	for _, t := range r.tenants {
		own := make([]timer.Result, 0, len(t.commands))
		for _, i := range t.commands {
			own = append(own, results[i])
		}
		t.Done(own...)
	}
}

// hold is done for tenants that have no more timers than before. For the others it
// returns what ends their part, when it is known whether the transaction was committed:
// until then a count of the timers does not see what it added.
func (r reserved) hold(results []timer.Result) (end func(committed bool)) {
	var held reserved
	for _, t := range r.tenants {
		one := reserved{tenants: []tenantReserved{t}}
		if slices.ContainsFunc(t.commands, func(i int) bool { return results[i].Outcome == timer.DidSchedule }) {
			held.tenants = append(held.tenants, t)
			continue
		}
		one.done(results)
	}
	return func(committed bool) {
		if !committed {
			held.cancel()
			return
		}
		held.done(results)
	}
}

// cancel says that it is not known what became of the commands.
func (r reserved) cancel() {
	for _, t := range r.tenants {
		t.Cancel()
	}
}
