package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const (
	oldTimers  = 60
	age        = 30 * 24 * time.Hour // the service keeps finished timers for less
	oldTimeout = 30 * time.Second    // for timers that are due at once
)

// makeOld has timers fired and canceled, and makes it appear in the database that this
// was long ago. Nothing is sent for them afterwards, as for timers that are old.
//
// This is the one place that opens the database, while the service is dead. The
// service reads the clock of the machine, and keeps finished timers for a day or
// longer.
func (r *run) makeOld(ctx context.Context, p *producer) error {
	tenant, commands := traffic.Old(oldTimers, time.Now())
	for _, c := range commands {
		p.send(ctx, c)
	}
	if err := r.await(ctx, oldTimeout, "timers that should become old fire", func() bool {
		open, unseen, err := r.pending(ctx)
		return err == nil && open == 0 && unseen == 0 && r.nothingMissing()
	}); err != nil {
		return err
	}
	if err := r.clear(r.instances[0]); err != nil {
		return err
	}
	switch n, err := r.database.age(ctx, tenant, age); {
	case err != nil:
		return fmt.Errorf("make timers old: %w", err)
	case n != oldTimers:
		return fmt.Errorf("made %d timers old, not %d", n, oldTimers)
	}
	return nil
}
