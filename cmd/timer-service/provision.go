package main

import (
	"context"
	"errors"
	"strings"

	"github.com/event-service-agent/timer-service/app/service"
)

type provisionCmd struct {
	DryRun bool `help:"Only tell what would be made."`
}

// Help is printed below the summary.
func (provisionCmd) Help() string {
	return `The service makes the streams, topics and queues that it needs when it starts,
unless provision is "verify": then it waits until they are there. This makes them
without starting, such as with the credentials of an administrator, so that the
service can do with fewer permissions. What is there is checked and never
changed; what does not fit is an error that names the setting.

Examples:

    timer-service provision --dry-run
    timer-service provision --broker-url nats://nats.example --nats-credentials admin.creds`
}

// Run makes what the broker needs.
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
	if err == nil || len(changes) > 0 { // what was made is made, whatever came after it
		e.out.print(made)
	}
	return err
}

// A provisioned is a broker with all that the service needs.
type provisioned struct {
	Changes []change `json:"changes"`
	DryRun  bool     `json:"dryRun"` // whether the changes were not made
	inside  bool
}

// A change is one thing that was made, or would be.
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
