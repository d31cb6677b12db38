package crash

import (
	"context"
	"time"
)

// A Harm does something to the broker of a run while the service works.
type Harm func(ctx context.Context, h Hands) error

// Hands are the means of a [Harm].
type Hands struct{ r *run }

// Rest lets the service work for a while.
func (h Hands) Rest(ctx context.Context, d time.Duration) error { return h.r.rest(ctx, d) }

// StopService ends the service in an orderly way, and StartService starts it again and waits
// until it is ready.
func (h Hands) StopService(ctx context.Context) error {
	for _, in := range h.r.instances {
		if err := h.r.end(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// StartService starts what StopService has ended.
func (h Hands) StartService(ctx context.Context) error {
	for _, in := range h.r.instances {
		if err := h.r.begin(ctx, in); err != nil {
			return err
		}
	}
	return h.r.awaitAll(ctx)
}

// RemakeCommands has remake delete the commands topic and make it again, while no command is
// on its way. As in [EmptyBroker], commands that the service had not acked are gone.
func (h Hands) RemakeCommands(ctx context.Context, remake func(context.Context) error) error {
	h.r.line.lead(nil, 0)
	if err := remake(ctx); err != nil {
		return err
	}
	base := h.r.recorder.Empty()
	h.r.wire.(*kafkaWire).remade() //nolint:forcetypeassert // no other broker has this mode
	h.r.line.lead(h.r.wire, base)
	return nil
}
