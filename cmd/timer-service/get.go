package main

import (
	"context"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/timer"
)

type getCmd struct {
	Tenant string `arg:"" help:"Owner of the timer."`
	Call   string `arg:"" help:"Service call."`
}

// Help is printed below the summary.
func (getCmd) Help() string {
	return `Reads the database, whether the service runs or not. Exit code 3 says that there
is no such timer.

Examples:

    timer-service get acme order-1
    timer-service get acme order-1 -o json --db-path /var/lib/timers.db`
}

// Run prints the timer.
func (g *getCmd) Run(ctx context.Context, e *env) error {
	key := timer.Key{TenantID: timer.TenantID(g.Tenant), ServiceCallID: timer.ServiceCallID(g.Call)}
	if err := key.Validate(); err != nil {
		return refused("get", err)
	}
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	entry, err := r.Get(ctx, key)
	if err != nil {
		return err // names the key
	}
	e.out.print(show(entry))
	return nil
}
