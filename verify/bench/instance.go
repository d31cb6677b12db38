package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// startLimit is how long an instance may take until it takes commands.
const startLimit = time.Minute

// An instance is a process of the service.
type instance struct {
	cmd   *exec.Cmd
	log   bytes.Buffer // what it writes
	took  time.Duration
	meant atomic.Bool   // whether it is to be killed
	ended chan struct{} // closed when it has ended
	err   error         // how; set before ended is closed
}

// start starts an instance and waits until it takes commands. Fell is called
// with how it ended, unless it was killed.
func start(ctx context.Context, bin string, environ []string, fell func(error)) (*instance, error) {
	i := &instance{cmd: exec.CommandContext(ctx, bin, "serve"), ended: make(chan struct{})}
	i.cmd.Env = append(crash.Environ(), environ...)
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	i.cmd.Stderr = &i.log
	ready := make(chan struct{})
	i.cmd.Stdout = crash.Watch(io.Discard, "ready", sync.OnceFunc(func() { close(ready) }))
	began := time.Now()
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	go func() {
		i.err = i.cmd.Wait()
		if i.err != nil {
			i.err = fmt.Errorf("%w\n%s", i.err, i.log.String())
		}
		if !i.meant.Load() {
			fell(i.err)
		}
		close(i.ended)
	}()
	select {
	case <-ready:
		i.took = time.Since(began)
		return i, nil
	case <-i.ended:
		return i, fmt.Errorf("the service ended: %w", i.err)
	case <-time.After(startLimit):
		return i, fmt.Errorf("the service is not ready after %v", startLimit)
	case <-ctx.Done():
		return i, ctx.Err()
	}
}

// kill ends the instance at once. It returns an error if it had ended by itself.
func (i *instance) kill() error {
	i.meant.Store(true)
	_ = i.cmd.Process.Kill() // an error means that it has ended, which is reported below
	<-i.ended
	if status, ok := i.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the service had ended: %w", i.err)
	}
	return nil
}

// stop ends the instance, which must be cleanly.
func (i *instance) stop() error {
	_ = i.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended, which is reported below
	select {
	case <-i.ended:
	case <-time.After(time.Minute):
		_ = i.cmd.Process.Kill()
		<-i.ended
	}
	if i.err != nil {
		return fmt.Errorf("the service: %w", i.err)
	}
	return nil
}

// stopAll ends instances together.
func stopAll(instances []*instance) error {
	errs := make([]error, len(instances))
	var stopping sync.WaitGroup
	for n, i := range instances {
		stopping.Go(func() { errs[n] = i.stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}
