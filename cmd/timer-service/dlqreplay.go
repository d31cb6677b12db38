package main

import (
	"context"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

type dlqReplayCmd struct{ letterWork }

// Help is printed below the summary.
func (dlqReplayCmd) Help() string {
	return `Publishes the originals to the commands of their tenants, and removes each letter
when the broker has its original for good. What fails again comes back as a dead
letter that counts on; after three replays a letter stays, and so does one whose
body was cut: they are reported as refused, with exit code 1. Interrupted or
killed, it loses nothing: run it again. Exit code 3 says that there is no letter
of an id.

Examples:

    timer-service dlq replay --tenant acme --reason beyond_horizon --dry-run
    timer-service dlq replay 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq replay --all --rate 100`
}

// Run replays the letters.
func (d *dlqReplayCmd) Run(ctx context.Context, e *env) error {
	return d.run(ctx, e, "dlq replay", (*deadletter.Office).Replay)
}
