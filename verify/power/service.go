//go:build linux

package power

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// readyLine begins the line with which the service says that it takes commands.
const readyLine = "ready"

// A life is one process of the service, from start to end.
type life struct {
	cmd     *exec.Cmd
	ready   chan struct{} // closed when the service says that it takes commands
	ended   chan struct{} // closed when the process has ended
	readyAt time.Time     // set before ready is closed
	err     error         // how it ended; set before ended is closed
}

// start starts a process of the service. It ends with ctx at the latest.
func start(ctx context.Context, bin, dir string, env []string, log io.Writer, now func() time.Time) (*life, error) {
	cmd := exec.CommandContext(ctx, bin, "serve")
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = ownGroup()
	l := &life{cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = log
	cmd.Stdout = crash.Watch(log, readyLine, func() {
		l.readyAt = now()
		close(l.ready)
	})
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	go func() {
		l.err = cmd.Wait()
		close(l.ended)
	}()
	return l, nil
}

// isReady reports whether the service said so in this life.
func (l *life) isReady() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// kill ends the process at once: it gets no chance to finish anything.
func (l *life) kill() error {
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the service: %w", err)
	}
	<-l.ended
	return nil
}

// stop asks the process to end and waits until it has, which must be cleanly.
func (l *life) stop(ctx context.Context) error {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the service: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("stop the service: %w", ctx.Err())
	case <-l.ended:
		return l.err
	}
}
