package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/service"
)

type recoverCmd struct {
	DryRun bool `help:"Only say what would be read, and since when."`
}

// Help is printed below the summary.
func (recoverCmd) Help() string {
	return `NATS and Kafka keep commands and events that were read, for as long as they keep any
message. If the database was deleted, or an older copy was put in its place, its timers
come back from there, and fired timers do not fire again. serve reads at each start what
the database may lack; this verb does it when recover is set to ask, or before. It fires
nothing.

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
	result := &recoveryResult{DryRun: r.DryRun, Commands: done.Commands, Timers: done.Timers, Events: done.Events, Reached: done.Reached, Logs: []readLog{}}
	for _, span := range done.Spans {
		result.Logs = append(result.Logs, readLog{span.Log, span.Kind.String(), span.From, span.UpTo, span.Since})
	}
	e.out.print(result, result.text())
	return nil
}

// A recoveryResult is the result of a recovery, or of its dry run.
type recoveryResult struct {
	DryRun   bool      `json:"dryRun"`
	Commands int64     `json:"commands"` // that were read
	Timers   int64     `json:"timers"`   // how many timers commands changed that had been taken before
	Events   int64     `json:"events"`
	Reached  int64     `json:"reached"` // how many timers events changed
	Logs     []readLog `json:"logs"`    // of a dry run
}

// A readLog is the part of a log that would be read.
type readLog struct {
	Log   string    `json:"log"`
	Kind  string    `json:"kind"`
	From  int64     `json:"from"` // behind this number
	UpTo  int64     `json:"upTo"`
	Since time.Time `json:"since"` // when the first message was stored
}

func (r *recoveryResult) text() string {
	var lines []string
	switch {
	case r.DryRun && len(r.Logs) == 0:
		return "nothing would be read: the database has all that the broker keeps"
	case r.DryRun:
		for _, l := range r.Logs {
			lines = append(lines, fmt.Sprintf("%s of %s behind %d up to %d would be read, the first one stored %s", l.Kind, l.Log, l.From, l.UpTo, l.Since.UTC().Format(time.RFC3339)))
		}
		return strings.Join(lines, "\n")
	case r.Timers+r.Reached == 0:
		lines = []string{"the database was complete"}
	default:
		lines = []string{"the database lacked messages that the broker has, and was recovered"}
	}
	return strings.Join(append(lines,
		fmt.Sprintf("commands read: %d, changed %d timers", r.Commands, r.Timers),
		fmt.Sprintf("events read: %d, changed %d timers to Reached or Expired", r.Events, r.Reached)), "\n")
}
