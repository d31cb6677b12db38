package main

import (
	"context"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

type dlqDiscardCmd struct{ letterWork }

// Help is printed below the summary.
func (dlqDiscardCmd) Help() string {
	return `Removes dead letters from the broker, for good: their originals are lost. Exit
code 3 says that there is no letter of an id.

Examples:

    timer-service dlq discard 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq discard --tenant acme --reason not_json --dry-run
    timer-service dlq discard --tenant _ --since 24h`
}

// Run removes the letters.
func (d *dlqDiscardCmd) Run(ctx context.Context, e *env) error {
	return d.run(ctx, e, "dlq discard", (*deadletter.Office).Discard)
}
