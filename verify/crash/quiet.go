package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const (
	quietAhead      = 20 * time.Second // from the last commands until their timers are due
	firesSoon       = 3 * time.Second  // the same for timers that fire before the loss
	waitingCommands = 300              // that wait for a quota before each other fault
	lastAccepted    = 20 * time.Second // until the service has acked the last commands
)

// What happens after the copy of the database that is put back, or before it is deleted, in
// turn: some commands, only invalid messages, or only firings.
const (
	onlyInvalid = -1
	onlyFirings = -2
)

var lastBeforeLoss = [...]int{1, onlyInvalid, 100, onlyFirings, 1000}

// loseQuietly has the service lose its database after it has acked its last commands.
//
//	traffic ends → all fired → commands wait → copy → last commands acked → loss → quiet
func (r *run) loseQuietly(ctx context.Context, due time.Time) (repair func() error, err error) {
	last := lastBeforeLoss[r.faults/2%len(lastBeforeLoss)]
	fmt.Fprintf(r.opt.Progress, "loss %d: last of %d, commands that wait: %t\n", r.faults+1, last, r.faults%2 == 1)
	if err := r.doLast(ctx, last, due); err != nil {
		return nil, err
	}
	if err := r.lose(ctx); err != nil {
		return nil, err
	}
	return func() error { return nil }, r.awaitAll(ctx)
}

// quietly has something be lost, and sends nothing until the timers of the last commands are due. Timers
// that are missing then are lost, and end the run: any later command could make the service notice.
// Before each other loss commands wait for a quota. When the timers have fired, what the loss has left is
// repaired, and the load goes on.
func (r *run) quietly(ctx context.Context, ahead time.Duration, lose func(ctx context.Context, due time.Time) (repair func() error, err error)) error {
	r.stopLoad()
	if err := r.comeToRest(ctx); err != nil {
		return err
	}
	if r.lost = !r.nothingMissing(); r.lost {
		return nil
	}
	due := time.Now().Add(ahead)
	if err := r.exceedQuota(ctx, due); err != nil {
		return err
	}
	repair, err := lose(ctx, due)
	if err != nil {
		return err
	}
	if time.Now().After(due) {
		return errors.New("the loss took so long that the last timers are due: this proves nothing")
	}
	if err := r.comeToRest(ctx); err != nil {
		return err
	}
	r.mayEnd, r.lost = false, !r.nothingMissing()
	if err := repair(); err != nil || r.lost {
		return err
	}
	r.startLoad(ctx)
	return nil
}

// doLast copies the database, if the mode puts a copy back, and has the last things happen.
func (r *run) doLast(ctx context.Context, last int, due time.Time) error {
	_, want := r.recorder.Count()
	if last == onlyFirings {
		firing := r.lastCommands(lastFirings, time.Now().Add(firesSoon))
		for _, c := range firing {
			if c.Kind == history.Schedule {
				want++
			}
		}
		if err := r.sendLast(ctx, firing); err != nil {
			return err
		}
	}
	if r.opt.Mode == Rollback {
		if err := r.file.copy(ctx, r); err != nil {
			return fmt.Errorf("copy the database: %w", err)
		}
	}
	switch last {
	case onlyInvalid:
		if err := r.sendLast(ctx, r.lastInvalid()); err != nil {
			return err
		}
	case onlyFirings:
		if err := r.await(ctx, lastAccepted, "the last timers fire", func() bool {
			_, seen := r.recorder.Count()
			return seen >= want
		}); err != nil {
			return err
		}
	default:
		if err := r.sendLast(ctx, r.lastCommands(last, due)); err != nil {
			return err
		}
	}
	return r.rest(ctx, quietWork.any(r.rand))
}

// lastFirings are how many commands there are whose timers fire, and lastInvalids how many
// invalid messages.
const (
	lastFirings  = 50
	lastInvalids = 20
)

// lastCommands makes up the last commands before a fault, whose timers are due at a time.
func (r *run) lastCommands(n int, due time.Time) []history.Command {
	some := make([]history.Command, n)
	for i := range some {
		some[i] = r.producer.make.Last(time.Now(), due, i)
	}
	return some
}

func (r *run) lastInvalid() []history.Command {
	some := make([]history.Command, lastInvalids)
	for i := range some {
		some[i] = r.producer.make.Invalid(time.Now())
	}
	return some
}

// exceedQuota sends commands that wait for the quota of their tenant, before each other fault.
func (r *run) exceedQuota(ctx context.Context, due time.Time) error {
	if r.faults%2 == 0 {
		return nil
	}
	some := make([]history.Command, traffic.LiveLimit+waitingCommands)
	for i := range some {
		some[i] = r.producer.make.Waiting(time.Now(), due)
	}
	if err := r.sendLast(ctx, some); err != nil {
		return fmt.Errorf("send commands over a quota: %w", err)
	}
	return nil
}

// sendLast sends commands, and has the service receive all of them at once. It returns when
// they are acked.
func (r *run) sendLast(ctx context.Context, commands []history.Command) error {
	for _, in := range r.instances {
		if err := in.life.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	}
	var sending sync.WaitGroup
	for part := range slices.Chunk(commands, (len(commands)+publishers-1)/publishers) {
		sending.Go(func() {
			for _, c := range part {
				r.producer.send(ctx, c)
			}
		})
	}
	sending.Wait()
	for _, in := range r.instances {
		if err := in.life.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	return r.await(ctx, lastAccepted, "the service has acked the last commands", func() bool {
		open, _, err := r.pending(ctx)
		return err == nil && open == 0
	})
}
