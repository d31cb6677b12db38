package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type cancelCmd struct {
	Tenant      timer.TenantID      `arg:"" help:"Owner of the timer."`
	Call        timer.ServiceCallID `arg:"" help:"Service call."`
	Correlation correlation         `placeholder:"ID" help:"Correlation id of this request."`
	waitFlags
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `Has a running service publish a CancelTimer, and prints what the timer was before. A
timer that has fired is not changed. If there is no timer, the service keeps a
tombstone, so that an older ScheduleTimer that arrives later has no effect.

With --wait it waits until the command was handled. The exit code is 1 if the timer is
not canceled then.

Examples:

    timer-service cancel acme order-1
    timer-service cancel acme order-1 --wait`
}

// Run has the command published, and waits for its result if --wait is given.
func (c *cancelCmd) Run(ctx context.Context, e *env, s *apiclient.Client) (err error) {
	key := timer.Key{TenantID: c.Tenant, ServiceCallID: c.Call}
	p := &published{Type: envelope.TypeCancelTimer}
	switch before, err := getTimer(ctx, s, key); {
	case err == nil:
		p.Before, p.was = show(before), was(before)
	case errors.Is(err, timer.ErrNotFound):
		p.was = "no such timer, the service keeps a tombstone"
	}
	p.Command, err = apiclient.Do[admin.Command](ctx, s, http.MethodDelete, apiclient.TimerPath(key)+apiclient.Query("correlationId", string(c.Correlation)), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return c.report(ctx, e, s, p)
}

// was says for people what a timer was before it is canceled.
func was(t admin.Timer) string {
	switch t.State {
	case timer.Reached:
		return "reached at " + when(t.ReachedAt) + " and stays so"
	case timer.Canceled:
		return "canceled before, at " + when(t.CanceledAt)
	}
	return "was due at " + when(t.DueAt)
}
