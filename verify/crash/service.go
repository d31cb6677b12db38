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

// servicePackage is what is tested. It is built, never imported.
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

// A service is what is started again and again on the same data.
type service struct {
	bin  string
	dir  string   // its working directory
	env  []string // names the broker and the database
	step string   // where the next process is to die, and at which passage; empty for nowhere
	log  io.Writer
	now  func() time.Time
}

// A life is one process of the service, from start to end.
type life struct {
	of      *instance
	number  int // of all processes of the run, from 1
	cmd     *exec.Cmd
	started time.Time
	ready   chan struct{} // closed when the service says that it takes commands
	ended   chan struct{} // closed when the process has ended
	fell    chan struct{} // closed when the process says that it dies at its step
	readyAt time.Time     // set before ready is closed
	err     error         // how it ended; set before ended is closed
	last    tail          // of what it said; not to be read before ended is closed
	noted   bool          // whether it is recorded when the process was up
	meant   bool          // whether the run ends it, and checks how it ended
}

// start starts a process. It ends with ctx at the latest.
func (s *service) start(ctx context.Context) (*life, error) {
	cmd := exec.CommandContext(ctx, s.bin, "serve")
	cmd.Dir = s.dir
	cmd.Env = append(append(environ(), "TIMER_UNKNOWN_TYPES=ignore"), s.env...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	l := &life{cmd: cmd, started: s.now(), ready: make(chan struct{}), ended: make(chan struct{}), fell: make(chan struct{})}
	cmd.Stderr = io.MultiWriter(s.log, &l.last)
	if s.step != "" {
		cmd.Env = append(cmd.Env, stepEnv+"="+s.step)
		name, _, _ := strings.Cut(s.step, ":")
		cmd.Stderr = &watcher{out: s.log, line: stepLine + name, found: func() { close(l.fell) }}
	}
	cmd.Stdout = &watcher{out: s.log, line: readyLine, found: func() {
		l.readyAt = s.now()
		close(l.ready)
	}}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	go func() {
		l.err = cmd.Wait()
		close(l.ended)
	}()
	return l, nil
}

// backup has the binary copy the database into a file.
func (s *service) backup(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, s.bin, "backup", file)
	cmd.Dir = s.dir
	cmd.Env = append(environ(), s.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("timer-service backup: %w\n%s", err, out)
	}
	return nil
}

// The environment variable that names the step, and what the process prints when it dies there.
const (
	stepEnv  = "FAILPOINT"
	stepLine = "failpoint "
)

// readyLine begins the line with which the service says that it takes commands.
const readyLine = "ready"

// environ returns the environment without settings of the service: it takes
// those of the test only.
func environ() []string {
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

// kill ends the process at once: it gets no chance to finish anything.
func (l *life) kill() error {
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the service: %w", err)
	}
	<-l.ended
	return nil
}

// killed reports whether a process that has ended was killed.
func (l *life) killed() bool {
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// signal sends the process a signal.
func (l *life) signal(sig syscall.Signal) error {
	if err := l.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send the service %s: %w", sig, err)
	}
	return nil
}

// isReady reports whether the service said so in this life.
func (l *life) isReady() bool { return isClosed(l.ready) }

// hasEnded reports whether the process is dead.
func (l *life) hasEnded() bool { return isClosed(l.ended) }

// hasFallen reports whether the process said that it dies at its step.
func (l *life) hasFallen() bool { return isClosed(l.fell) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
