package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
)

type chaosCmd struct {
	Rate     int           `default:"500" help:"Timers a second."`
	Duration time.Duration `default:"2m" help:"How long each fault is injected, again and again."`
	Faults   []bench.Fault `enum:"restart,backends,pool,service,broker" default:"restart,backends,pool,service,broker" help:"Which faults, in this order."`
}

// Help describes the faults and the columns.
func (chaosCmd) Help() string {
	return `Each fault has a run of its own, on a new database, with PostgreSQL and NATS servers
that are started for it. PostgreSQL must be installed. Each timer is due 0.5 to 2
seconds after it is scheduled; a command that the broker refuses is published
again under the same id until it is accepted.

  restart   PostgreSQL is stopped, every other time killed, and started again, each 30 s
  backends  all connections with the database of the service are ended each second
  pool      other connections take all that the role of the service may have, for 3 of
            each 8 s; the service's are ended at the beginning
  service   the service is killed and started again each 5 s
  broker    NATS is killed and started again each 30 s

With a shorter duration each fault is injected twice at least.

Columns of the table:

  lost        timers that did not fire
  early       events that the broker had before the due time
  second ids  events of a timer that had an event with another id
  repeated    publishes of an event that was published before, with the same id
  lateness    from the due time, or from the broker's answer to the command if that is
              later, until the broker has the event, while faults are injected
  seconds to clean
              from the end of the last fault until no timer is overdue by more than twice
              the p99 of the 5 s before the first fault, and 99 % of those of the next
              second are not later than that. A fault has ended when the server accepts
              clients, the connections are given back, or the service's process is started

The exit code is 1 if a timer was lost, was early or had a second id.`
}

// chaos injects each fault, and writes the table as it comes.
func (c *cli) chaos(ctx context.Context, opt bench.Options, out io.Writer) error {
	opt.Rate, opt.Duration = c.Chaos.Rate, c.Chaos.Duration
	fmt.Fprintln(out, bench.ChaosHeader)
	broken := 0
	for _, f := range c.Chaos.Faults {
		r, err := bench.Chaos(ctx, opt, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		fmt.Fprintln(out, r.MarkdownRow())
		if r.Broken() {
			broken++
		}
	}
	if broken > 0 {
		return fmt.Errorf("timers were lost, early or had a second id with %d of %d faults", broken, len(c.Chaos.Faults))
	}
	return nil
}
