package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// servicePackage is the program under test. It is built, never imported.
const servicePackage = "github.com/event-service-agent/timer-service/cmd/timer-service"

// stepTag is the build tag of a service that can die at a named step.
const stepTag = "failpoint"

// Build builds the service into dir, with build tags, and returns the path of
// the binary. It must be called somewhere in the module of the service.
func Build(ctx context.Context, dir string, tags ...string) (string, error) {
	bin := filepath.Join(dir, "timer-service")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", bin, servicePackage).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return bin, nil
}

// A Process is one process of the service, from start to end.
type Process struct {
	Started time.Time
	Ready   chan struct{} // closed when the service says that it takes commands
	ReadyAt time.Time     // set before Ready is closed
	Ended   chan struct{} // closed when the process has ended
	Err     error         // how it ended; set before Ended is closed

	cmd *exec.Cmd
}

// Start starts a process of a binary in a folder, with settings beside the environment. It
// ends with ctx at the latest. The times of the process are those of now.
func Start(ctx context.Context, bin, dir string, settings []string, stdout, stderr io.Writer, now func() time.Time) (*Process, error) {
	cmd := exec.CommandContext(ctx, bin, "serve")
	cmd.Dir, cmd.Env = dir, append(Environ(), settings...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	p := &Process{cmd: cmd, Started: now(), Ready: make(chan struct{}), Ended: make(chan struct{})}
	cmd.Stderr = stderr
	cmd.Stdout = &watcher{out: stdout, line: readyLine, found: func() {
		p.ReadyAt = now()
		close(p.Ready)
	}}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	go func() {
		p.Err = cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// readyLine begins the line with which the service says that it takes commands.
const readyLine = "ready"

// Environ returns the environment without settings of the service: it takes
// those of the test only.
func Environ() []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TIMER_") && !strings.HasPrefix(e, stepEnv+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// ownGroup keeps signals of the terminal away from a process: who started it
// ends it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once: it gets no chance to finish anything.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the service: %w", err)
	}
	<-p.Ended
	return nil
}

// Killed reports whether a process that has ended was killed.
func (p *Process) Killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Signal sends the process a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send the service %s: %w", sig, err)
	}
	return nil
}

// Stop asks the process to end and returns how it has ended, which must be cleanly and
// within a limit. A process that is over already has ended as it did.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the service: %w", err)
	}
	select {
	case <-p.Ended:
		return p.Err
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("the service has not stopped within %s", limit), p.Kill())
	}
}

// IsReady reports whether the service said that it takes commands.
func (p *Process) IsReady() bool { return isClosed(p.Ready) }

// HasEnded reports whether the process is dead.
func (p *Process) HasEnded() bool { return isClosed(p.Ended) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
