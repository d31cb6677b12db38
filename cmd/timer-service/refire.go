package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type refireCmd struct {
	Tenant timer.TenantID `arg:"" optional:"" help:"Only events of this tenant; without it, of all."`
	Since  since          `required:"" placeholder:"2h" help:"Of timers that were reached or expired in this time (2h, 7d), or since this time (RFC 3339)."`
	Prefix string         `placeholder:"CALL" help:"Only of timers whose service call begins so."`
	DryRun bool           `help:"Only say how many there are."`
}

// Help is printed below the summary.
func (refireCmd) Help() string {
	return `For consumers that lost events, or a broker that lost what it had stored, such as a NATS
server after a power cut. Each event keeps its id and its times: a consumer that
remembers the id drops it, as client.OnDue does. At most 2,000 a second are published,
in the order in which the timers fired, and fewer while the outbox is behind.

It says from when on that is complete: finished timers are deleted after their
retention. The exit code is 1 if not all were published; then run it again.

Examples:

    timer-service refire --since 10m --dry-run
    timer-service refire acme --since 2h --prefix order-17.
    timer-service refire acme --since 2030-01-31T12:00:00Z -o json`
}

// Run sends requests until all events are published again.
func (r *refireCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	sum := &refired{DryRun: r.DryRun}
	defer func() {
		if sum.CompleteFrom != "" { // there was an answer, perhaps before an error
			e.out.print(sum)
		}
	}()
	for until, after := "", ""; ; {
		query := apiclient.Query("tenant", string(r.Tenant), "prefix", r.Prefix, "since", r.Since.text(), "until", until, "after", after, "dryRun", yes(r.DryRun))
		did, err := apiclient.Do[admin.Refired](ctx, c, http.MethodPost, apiclient.Path("timers:refire")+query, nil)
		if err != nil {
			return err
		}
		sum.add(did)
		if until, after = did.Until, did.Next; after == "" {
			return nil
		}
	}
}

// Refired counts events that were published again, or would be.
type refired struct {
	DryRun bool `json:"dryRun"`
	admin.Refired
}

// add adds the counts of an answer.
func (r *refired) add(did admin.Refired) {
	did.Events += r.Events
	did.First = append(r.First, did.First...)
	did.First = did.First[:min(len(did.First), timer.FirstRefired)]
	r.Refired = did
}

func (r *refired) text() string {
	line := fmt.Sprintf("events published again: %d", r.Events)
	if r.DryRun {
		line = fmt.Sprintf("events to publish again: %d", r.Events)
	}
	for _, t := range r.First {
		line += fmt.Sprintf("\n    %s/%s  %s", t.TenantID, t.ServiceCallID, marked(t))
	}
	if more := r.Events - len(r.First); more > 0 {
		line += fmt.Sprintf("\n    and %d others", more)
	}
	if r.CompleteFrom != "" {
		line += "\ncomplete from " + when(r.CompleteFrom) + ": older timers may be deleted"
	}
	return line
}
