package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/service"
)

type recoverCmd struct {
	DryRun bool `help:"Only say what would change."`
}

// Help is printed below the summary.
func (recoverCmd) Help() string {
	return `NATS and Kafka keep commands and events that were read, for as long as they keep any
message. If the database was deleted, or an older copy was put in its place, its timers
come back from there, and fired timers do not fire again. serve does that at its
start; this verb does it when recover is set to ask, or before. It fires nothing.

Stop the service first if its database is a SQLite file. What is older than the broker
keeps is in backups only: timer-service doctor says how many timers that are.

Examples:

    timer-service recover --dry-run
    timer-service recover`
}

// Run recovers the database from the broker.
func (r *recoverCmd) Run(ctx context.Context, e *env) error {
	done, err := service.Recover(ctx, e.cfg, r.DryRun, e.log)
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%s keeps no message that was read: restore a backup of the database", e.cfg.Broker)
	}
	if err != nil {
		return err
	}
	e.out.print(&recovered{
		DryRun: r.DryRun, Reason: done.Reason, Commands: done.Commands, Timers: done.Timers, Events: done.Events, Reached: done.Reached,
	})
	return nil
}

// A recovered is the result of a recovery, or of a dry run.
type recovered struct {
	DryRun   bool   `json:"dryRun"`
	Reason   string `json:"reason"` // empty: the database need not be recovered
	Commands int64  `json:"commands"`
	Timers   int64  `json:"timers"` // how many timers commands change
	Events   int64  `json:"events"`
	Reached  int64  `json:"reached"` // how many timers events change
}

func (r *recovered) text() string {
	if r.Reason == "" {
		return "the database need not be recovered"
	}
	changed := "changed"
	if r.DryRun {
		changed = "would change"
	}
	return strings.Join([]string{
		"the database has to be recovered: " + r.Reason,
		fmt.Sprintf("commands read: %d, %s %d timers", r.Commands, changed, r.Timers),
		fmt.Sprintf("events read: %d, %s %d timers to Reached or Expired", r.Events, changed, r.Reached),
	}, "\n")
}
