package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// A Process is one process of a program, such as the service, from start to end.
type Process struct {
	Started time.Time
	Ready   chan struct{} // closed when the process prints a line that begins with "ready"
	ReadyAt time.Time     // set before Ready is closed
	Ended   chan struct{} // closed when the process has ended
	Err     error         // how it ended; set before Ended is closed

	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []Line
}

// A Line is one that a process wrote, to stdout or stderr.
type Line struct {
	At   time.Time
	Text string
}

// Start starts a process of the service in a folder, with settings in addition to the environment. It
// ends with ctx at the latest. Its output also goes to out.
func Start(ctx context.Context, bin, dir string, settings []string, out io.Writer) (*Process, error) {
	cmd := exec.CommandContext(ctx, bin, "serve")
	cmd.Dir, cmd.Env = dir, append(Environ(), settings...)
	cmd.WaitDelay = time.Second
	return StartCommand(cmd, out)
}

// StartCommand starts a process of any program. The caller must not set its output.
func StartCommand(cmd *exec.Cmd, out io.Writer) (*Process, error) {
	p := &Process{cmd: cmd, Started: time.Now(), Ready: make(chan struct{}), Ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &splitter{out: out, line: p.wrote}, &splitter{out: out, line: p.wrote}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals of the terminal are none of its
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		p.Err = cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// wrote notes a line of the process.
func (p *Process) wrote(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now()
	p.lines = append(p.lines, Line{at, text})
	if strings.HasPrefix(text, "ready") && !p.IsReady() {
		p.ReadyAt = at
		close(p.Ready)
	}
}

// Lines returns the output of the process so far.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[:len(p.lines):len(p.lines)]
}

// Find returns the first line since a time that holds a text.
func (p *Process) Find(text string, since time.Time) (Line, bool) {
	for _, l := range p.Lines() {
		if l.At.After(since) && strings.Contains(l.Text, text) {
			return l, true
		}
	}
	return Line{}, false
}

// Last returns the last lines that the process wrote.
func (p *Process) Last(n int) string {
	var b strings.Builder
	lines := p.Lines()
	for _, l := range lines[max(0, len(lines)-n):] {
		fmt.Fprintf(&b, "%s %.400s\n", l.At.Format("15:04:05.000"), l.Text)
	}
	return b.String()
}

// Await waits until the process is ready.
func (p *Process) Await(ctx context.Context, limit time.Duration) error {
	select {
	case <-p.Ready:
		return nil
	case <-p.Ended:
		return fmt.Errorf("the process ended before it was ready: %w\n%s", p.Err, p.Last(40))
	case <-time.After(limit):
		return fmt.Errorf("the process is not ready after %s\n%s", limit, p.Last(40))
	case <-ctx.Done():
		return ctx.Err()
	}
}

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

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once: it gets no chance to finish anything.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Ended
	return nil
}

// Killed reports whether a process that has ended was killed.
func (p *Process) Killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Signal sends the process a signal, if it has not ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send process %d %s: %w", p.PID(), sig, err)
	}
	return nil
}

// Stop asks the process to end and returns how it has ended, which must be cleanly and
// within a limit. A process that is over already has ended as it did.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Ended:
		return p.Err
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("the service has not stopped within %s", limit), p.Kill())
	}
}

// IsReady reports whether the process said that it is ready.
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

// A splitter passes text on, and calls line with each complete line of it.
type splitter struct {
	out  io.Writer
	line func(text string)
	rest []byte // of a line that is not complete
}

// Write writes to out.
func (s *splitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, complete := bytes.Cut(s.rest, []byte("\n"))
		if !complete {
			return s.out.Write(p)
		}
		s.line(string(line))
		s.rest = rest
	}
}
