package main

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

type topCmd struct {
	Once     bool          `help:"Print one frame and end, as it does if the output is no terminal."`
	Interval time.Duration `default:"1s" help:"How long until the next frame."`
}

// Help is printed below the summary.
func (topCmd) Help() string {
	return `Shows a running service, every second: how late events were at the broker in the last
five minutes, what is overdue, how many commands and events pass a second, by the last
minute, the parts that are not ready, and the tenants that have the most timers. Ctrl-C
ends it. Lateness and throughput are those of the instance that is asked.

Examples:

    timer-service top
    timer-service top --server http://timers.example:8080
    timer-service top --once -o json`
}

// Validate refuses an interval that is too short.
func (c *topCmd) Validate() error {
	if c.Interval < 100*time.Millisecond {
		return wrong("top", "--interval must be 100ms or more")
	}
	return nil
}

// Run shows frames until ctx ends.
func (c *topCmd) Run(ctx context.Context, e *env, client *apiclient.Client) error {
	if c.Once || e.out.json || !isTerminal(e.out.w) {
		f, err := c.ask(ctx, client, e.now())
		if err == nil {
			e.out.print(f)
		}
		return err
	}
	fmt.Fprint(e.out.w, "\x1b[?1049h\x1b[?25l") // an alternate screen without a cursor
	defer fmt.Fprint(e.out.w, "\x1b[?25h\x1b[?1049l")
	for ctx.Err() == nil && e.out.failed() == nil {
		f, err := c.ask(ctx, client, e.now())
		text := fmt.Sprintf("%s\n\n%s\nIt is asked again.", envelope.FormatTime(e.now()), redact(fmt.Sprint(err)))
		if err == nil {
			text = f.text()
		}
		fmt.Fprint(e.out.w, "\x1b[H\x1b[J"+text)
		pause.For(ctx, c.Interval)
	}
	return e.out.failed()
}

// ask returns a frame of now.
func (c *topCmd) ask(ctx context.Context, client *apiclient.Client, now time.Time) (*frame, error) {
	stats, err := apiclient.Get[admin.Stats](ctx, client, apiclient.Path("stats"))
	if err != nil {
		return nil, err
	}
	page, err := tenantsOf(ctx, client, "", timer.MaxPage)
	if err != nil {
		return nil, err
	}
	is, err := client.Readiness(ctx)
	return newFrame(now, stats, page.Tenants, is), err
}
