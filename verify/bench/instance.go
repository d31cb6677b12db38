package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// startLimit is how long an instance may take until it takes commands.
const startLimit = time.Minute

// An instance is a process of the service.
type instance struct {
	*crash.Process

	log   bytes.Buffer  // what it writes
	meant atomic.Bool   // whether it is to be killed
	told  chan struct{} // closed when the caller knows that it has ended
}

// start starts an instance and waits until it takes commands. Fell is called
// with how it ended, unless it was killed.
func start(ctx context.Context, bin string, settings []string, fell func(error)) (*instance, error) {
	i := &instance{told: make(chan struct{})}
	process, err := crash.Start(ctx, bin, "", settings, io.Discard, &i.log, time.Now)
	if err != nil {
		return nil, err
	}
	i.Process = process
	go func() {
		<-i.Ended
		if !i.meant.Load() {
			fell(i.how())
		}
		close(i.told)
	}()
	select {
	case <-i.Ready:
		return i, nil
	case <-i.told:
		return i, fmt.Errorf("the service ended: %w", i.how())
	case <-time.After(startLimit):
		return i, fmt.Errorf("the service is not ready after %v", startLimit)
	case <-ctx.Done():
		return i, ctx.Err()
	}
}

// took returns how long the start took.
func (i *instance) took() time.Duration { return i.ReadyAt.Sub(i.Started) }

// how returns how the instance has ended, with what it wrote if that was no clean end.
func (i *instance) how() error {
	if i.Err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", i.Err, i.log.String())
}

// kill ends the instance at once. It returns an error if it had ended by itself.
func (i *instance) kill() error {
	i.meant.Store(true)
	if err := i.Kill(); err != nil {
		return err
	}
	<-i.told
	if !i.Killed() {
		return fmt.Errorf("the service had ended: %w", i.how())
	}
	return nil
}

// stopAll ends instances together, which must be cleanly.
func stopAll(instances []*instance) error {
	errs := make([]error, len(instances))
	var stopping sync.WaitGroup
	for n, i := range instances {
		stopping.Go(func() {
			if err := i.Stop(time.Minute); err != nil {
				errs[n] = fmt.Errorf("the service: %w\n%s", err, i.log.String())
			}
			<-i.told
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}
