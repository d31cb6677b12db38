package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type cancelCmd struct {
	Tenant      timer.TenantID      `arg:"" help:"Owner of the timer."`
	Call        timer.ServiceCallID `arg:"" optional:"" help:"Service call."`
	Prefix      string              `placeholder:"CALL" xor:"many" help:"Cancel all timers whose service call begins so."`
	Correlated  string              `placeholder:"ID" xor:"many" help:"Cancel all timers with this correlation id."`
	DryRun      bool                `xor:"wait" help:"With --prefix or --correlated: only say how many there are."`
	Correlation string              `placeholder:"ID" xor:"many" help:"Correlation id of this request, with a service call."`
	Wait        bool                `xor:"wait" help:"Wait until the command took effect, and print that."`
	Timeout     timeout             `default:"30s" help:"How long to wait."`
}

// Validate refuses arguments that are missing or exclude each other.
func (c cancelCmd) Validate() error {
	many := c.Prefix != "" || c.Correlated != ""
	if many == (c.Call != "") || c.DryRun && !many {
		return errors.New("name a service call, or give --prefix or --correlated, which --dry-run needs")
	}
	if many && c.Wait {
		return errors.New("--wait goes with a service call")
	}
	return nil
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `Has a running service publish a CancelTimer, and prints what the timer was before. It
is newer than the command that set the timer, also if that came from a clock that is
ahead. The exit code is 1 if the timer has fired or expired. If there is no timer, the service
keeps a tombstone, so that an older ScheduleTimer that arrives later has no effect.
With --wait it waits until the command was handled. The exit code is 1 if the timer is
not canceled then.
With --prefix or --correlated it counts all such timers that wait, and cancels them.

Examples:

    timer-service cancel acme order-1 --wait
    timer-service cancel acme --prefix order-17. --dry-run
    timer-service cancel acme --correlated req-7f3a`
}

// Run asks the service to publish the command, and waits for its result if --wait is given.
func (c *cancelCmd) Run(ctx context.Context, e *env, s *apiclient.Client) error {
	if c.Call != "" {
		p := newPublished(envelope.TypeCancelTimer, c.Tenant, c.Call)
		return p.publish(ctx, e, s, waitOptions{c.Wait, false, c.Timeout}, http.MethodDelete, nil, "correlationId", c.Correlation)
	}
	query := apiclient.Query("prefix", c.Prefix, "correlationId", c.Correlated, "dryRun", fmt.Sprint(c.DryRun))
	sent, err := apiclient.Do[admin.ManyCanceled](ctx, s, http.MethodDelete, apiclient.Path("tenants", string(c.Tenant), "timers")+query, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Tenant, err)
	}
	e.out.print(sent, canceledText(sent))
	return nil
}

// canceledText says how many timers are canceled, or would be, and names the first.
func canceledText(m admin.ManyCanceled) string {
	line := fmt.Sprintf("%-10s %d timers of %s", m.Result, m.Timers, m.TenantID)
	if m.ID != "" {
		line += "  id " + m.ID
	}
	for _, t := range m.First {
		line += "\n           " + string(t.ServiceCallID) + "  due " + when(t.DueAt)
	}
	if more := m.Timers - len(m.First); more > 0 {
		line += fmt.Sprintf("\n           and %d others", more)
	}
	return line
}
