package main

import (
	"context"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
)

type heldCmd struct {
	Rate     int           `default:"1000" help:"Timers a second."`
	Held     time.Duration `default:"30m" help:"How long the snapshot is held. After two thirds the service is restarted."`
	Clean    time.Duration `default:"1m" help:"How long timers come before that, and from a minute after its end."`
	Deferred int           `default:"1000" help:"Events that the broker refuses again and again, so that they are deferred meanwhile."`
}

// held measures the service and River while a transaction holds a snapshot.
func (c *cli) held(ctx context.Context, opt bench.Options, out io.Writer) error {
	opt.Rate = c.Held.Rate
	all, err := bench.Held(ctx, opt, bench.HeldOptions{Clean: c.Held.Clean, Held: c.Held.Held, Deferred: c.Held.Deferred})
	bench.WriteHeld(out, all)
	return err
}
