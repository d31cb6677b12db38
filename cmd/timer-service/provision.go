package main

import (
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
	if errors.Is(err, service.ErrNothingToProvision) {
		e.out.print(&provisioned{Changes: []change{}, DryRun: p.DryRun, inside: true})
		return nil
	}
	made := &provisioned{Changes: make([]change, len(changes)), DryRun: p.DryRun}
	for i, c := range changes {
		made.Changes[i] = change(c)
	}
	if err == nil || len(changes) > 0 { // changes before an error are reported too
		e.out.print(made)
	}
	return err
}

// A provisioned is the result of provisioning a broker.
type provisioned struct {
	Changes []change `json:"changes"`
	DryRun  bool     `json:"dryRun"` // the changes were not made
	inside  bool     // the broker is in the serving process
}

// A change is one object that was created, or would be.
type change struct {
	Object string `json:"object"`
	Detail string `json:"detail"`
}

func (p *provisioned) text() string {
	switch {
	case p.inside:
		return "nothing to do: " + service.ErrNothingToProvision.Error()
	case len(p.Changes) == 0:
		return "nothing to do: all is there"
	}
	verb := "made "
	if p.DryRun {
		verb = "would make "
	}
	lines := make([]string, len(p.Changes))
	for i, c := range p.Changes {
		lines[i] = verb + c.Object + ": " + c.Detail
	}
	return strings.Join(lines, "\n")
}
