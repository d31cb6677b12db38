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

// servicePackage is what is tested. It is built, never imported.
const servicePackage = "github.com/event-service-agent/timer-service/cmd/timer-service"

// Build builds the service into dir and returns the path of the binary. It must
// be called somewhere in the module of the service.
func Build(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "timer-service")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, servicePackage).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return bin, nil
}

// A service is what is started again and again on the same data.
type service struct {
	bin string
	dir string // its working directory; holds the database
	url string // of the broker
	log io.Writer
	now func() time.Time
}

// A life is one process of the service, from start to end.
type life struct {
	cmd     *exec.Cmd
	started time.Time
	ready   chan struct{} // closed when the service says that it takes commands
	ended   chan struct{} // closed when the process has ended
	readyAt time.Time     // set before ready is closed
	err     error         // how it ended; set before ended is closed
}

// start starts a process. It ends with ctx at the latest.
func (s *service) start(ctx context.Context) (*life, error) {
	cmd := exec.CommandContext(ctx, s.bin, "serve")
	cmd.Dir = s.dir
	cmd.Env = append(environ(), "TIMER_DB_PATH="+filepath.Join(s.dir, "timers.db"), "TIMER_BROKER=nats", "TIMER_BROKER_URL="+s.url)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	l := &life{cmd: cmd, started: s.now(), ready: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = s.log
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

// readyLine begins the line with which the service says that it takes commands.
const readyLine = "ready"

// environ returns the environment without settings of the service: it takes
// those of the test only.
func environ() []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TIMER_") {
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

// signal sends the process a signal.
func (l *life) signal(sig syscall.Signal) error {
	if err := l.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send the service %s: %w", sig, err)
	}
	return nil
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

// A watcher passes on what is written to it and looks for the first line that
// begins in a certain way.
type watcher struct {
	out   io.Writer
	line  string
	found func() // called once

	mu   sync.Mutex
	rest []byte // of a line that is not complete
	done bool
}

// Write writes to out.
func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for text := p; !w.done; {
		before, after, complete := bytes.Cut(text, []byte("\n"))
		w.rest = append(w.rest, before...)
		if !complete {
			break
		}
		if bytes.HasPrefix(w.rest, []byte(w.line)) {
			w.done = true
			w.found()
		}
		w.rest, text = w.rest[:0], after
	}
	return w.out.Write(p)
}
