package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/event-service-agent/timer-service/service"
)

type provisionCmd struct {
	DryRun bool `help:"Only print what would be created."`
}

// Help is printed below the summary.
func (provisionCmd) Help() string {
	return `When it starts, the service creates the streams, topics and queues that it needs,
unless the setting provision is "verify": then it waits until they exist. This verb
only creates them, such as with the credentials of an administrator, so that the
service needs fewer permissions. What exists is checked and never changed; if it
does not fit, the error names the setting.

Examples:

    timer-service provision --dry-run
    timer-service provision --broker-url nats://nats.example --nats-credentials admin.creds`
}

// Run creates missing objects at the broker.
func (p *provisionCmd) Run(ctx context.Context, e *env) error {
	changes, err := service.Provision(ctx, e.cfg, p.DryRun, e.log)
	made, text, verb := provisionResult{Changes: []change{}, DryRun: p.DryRun}, "nothing to do", "made "
	if errors.Is(err, service.ErrNothingToProvision) {
		text, err = text+": "+err.Error(), nil
	}
	if p.DryRun {
		verb = "would make "
	}
	var lines []string
	for _, c := range changes {
		made.Changes, lines = append(made.Changes, change(c)), append(lines, verb+c.Object+": "+c.Detail)
	}
	if err == nil || len(changes) > 0 { // changes before an error are reported too
		e.out.print(made, cmp.Or(strings.Join(lines, "\n"), text))
	}
	return err
}

// A provisionResult is the result of provisioning a broker.
type provisionResult struct {
	Changes []change `json:"changes"`
	DryRun  bool     `json:"dryRun"` // the changes were not made
}

// A change is one object that was created, or would be.
type change struct {
	Object string `json:"object"`
	Detail string `json:"detail"`
}
