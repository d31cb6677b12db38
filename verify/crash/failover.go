package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// lastAhead is how long before they are due timers are scheduled that are the last before a
// failover.
const lastAhead = 30 * time.Second

// lastCommands are how many commands there are before a failover, in turn: one, and enough
// for several transactions of the service. Then a transaction that is committed
// before the last one may begin when all of them have arrived.
var lastCommands = [...]int{1, 100, 1000}

// failOverLagging promotes a standby that lacks exactly the last transaction of timers that
// the service has acked.
//
//	traffic ends → all fired → last commands acked → primary dies → standby promoted → quiet
//
// Of several instances the one that committed last dies with the primary, and stays dead
// until the end of the quiet. One that is alone dies at every other failover, and starts at once.
func (r *run) failOverLagging(ctx context.Context, due time.Time) (repair func() error, err error) {
	if err := r.replicated.pause(ctx); err != nil {
		return nil, fmt.Errorf("pause the standby: %w", err)
	}
	commands := lastCommands[r.faults%len(lastCommands)]
	if err := r.sendLast(ctx, r.lastCommands(commands, due)); err != nil {
		return nil, fmt.Errorf("send the last commands: %w", err)
	}
	last, err := r.replicated.last(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the last transaction: %w", err)
	}
	victim := r.instances[last.instance-1]
	if len(r.instances) == 1 && r.faults%2 == 0 {
		victim = nil
	}
	fmt.Fprintf(r.opt.Progress, "failover %d: %d commands; the standby lacks the last transaction, of %d timers, by instance %d, which dies, too: %t\n",
		r.faults+1, commands, last.timers, last.instance, victim != nil)
	return func() error {
		if victim != nil && victim.away {
			victim.away = false
			if err := r.begin(ctx, victim); err != nil {
				return err
			}
		}
		return r.replicated.addStandby(ctx)
	}, r.loseLast(ctx, last.xid, victim)
}

// loseLast has the primary die, with an instance or nil, and the standby take its place,
// without a transaction.
func (r *run) loseLast(ctx context.Context, xid int64, victim *instance) error {
	r.mayEnd = true
	killed := time.Now()
	if victim != nil {
		if err := r.kill(victim); err != nil {
			return err
		}
		victim.away = len(r.instances) > 1
	}
	if err := r.without(ctx, func(ctx context.Context) error { return r.replicated.failOverBefore(ctx, xid) }); err != nil {
		return err
	}
	r.recorder.Restarted(history.Restart{Killed: killed, Began: time.Now()})
	if victim != nil && !victim.away {
		return r.begin(ctx, victim)
	}
	return nil
}
