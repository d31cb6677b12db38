package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// loseDatabase loses the database while there is traffic.
func (r *run) loseDatabase(ctx context.Context) error {
	if r.opt.Mode == Rollback {
		if err := r.mayCopy(ctx); err != nil {
			return err
		}
	}
	return r.lose(ctx)
}

// lose kills all instances, changes the database as the mode says, and starts them again.
// Every other time one is killed soon again, perhaps while it recovers.
func (r *run) lose(ctx context.Context) error {
	if err := r.killAll(); err != nil {
		return err
	}
	killed := time.Now()
	if err := r.spoil(); err != nil {
		return err
	}
	if err := r.beginAll(ctx, history.Restart{Killed: killed}); err != nil {
		return err
	}
	if r.rand.IntN(2) == 0 {
		return nil
	}
	if err := r.rest(ctx, workTime.any(r.rand)); err != nil {
		return err
	}
	if err := r.killAll(); err != nil {
		return err
	}
	return r.beginAll(ctx, history.Restart{Killed: time.Now()})
}

// awaitEvents waits until the service has published something: on some brokers it gets
// nothing for long after a kill, and then there is nothing to lose.
func (r *run) awaitEvents(ctx context.Context) error {
	_, before := r.recorder.Count()
	return r.await(ctx, readyTimeout, "the service publishes something", func() bool {
		_, seen := r.recorder.Count()
		return seen > before
	})
}

// spoil changes the database as the mode says.
func (r *run) spoil() error {
	if r.opt.Mode == Rollback {
		return r.file.restore(r)
	}
	return r.file.wipe()
}

// mayCopy makes a copy of the database now and then, the first time in any case, and
// lets the service work on.
func (r *run) mayCopy(ctx context.Context) error {
	if r.faults > 0 && r.rand.IntN(2) == 0 {
		return nil
	}
	if err := r.awaitAll(ctx); err != nil {
		return err
	}
	if err := r.file.copy(ctx, r); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return r.rest(ctx, workOfMany.any(r.rand))
}

// maxCopies is the most copies of a database.
const maxCopies = 4

// killAll kills all instances, also those of which it is not noticed yet that they
// ended.
func (r *run) killAll() error {
	for _, in := range r.instances {
		if err := r.kill(in); err != nil {
			return err
		}
	}
	return nil
}

// beginAll starts all instances, and records that.
func (r *run) beginAll(ctx context.Context, s history.Restart) error {
	s.Began = time.Now()
	r.recorder.Restarted(s)
	for _, in := range r.instances {
		if err := r.begin(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// emptyBroker kills the service and the broker, deletes all that the broker has, and
// starts both. The messages of the service are recorded before.
func (r *run) emptyBroker(ctx context.Context) error {
	if err := r.killAll(); err != nil {
		return err
	}
	killed := time.Now()
	r.line.lead(nil, 0)
	if err := r.awaitSeen(ctx); err != nil {
		return err
	}
	r.hangUp()
	if err := r.broker.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(r.dir, brokerData)); err != nil {
		return err
	}
	base := r.recorder.Empty()
	if err := r.beginBroker(ctx); err != nil {
		return err
	}
	if err := r.beginAll(ctx, history.Restart{Killed: killed, Emptied: true}); err != nil {
		return err
	}
	if err := r.awaitAll(ctx); err != nil {
		return err
	}
	return r.connect(ctx, base)
}

// awaitSeen waits until the messages of the service are recorded.
func (r *run) awaitSeen(ctx context.Context) error {
	return r.await(ctx, readyTimeout, "all events and dead letters of the broker are read", func() bool {
		_, unseen, err := r.pending(ctx)
		return err == nil && unseen == 0
	})
}
