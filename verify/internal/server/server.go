// Package server runs the server of a test in a process of its own, which ends with the test's
// process where the system can see to that.
package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Server is a process, from start to end.
type Server struct {
	cmd   *exec.Cmd
	log   string        // path of its log
	ended chan struct{} // closed when it and all its children have ended
	stop  sync.Once
}

// Start starts a process in a group of its own, so that it gets no signals of the terminal. It
// appends what it prints to a log. When this process ends, it gets a signal on Linux: its parent is
// a thread there, so a thread stays.
func Start(cmd *exec.Cmd, log string, withParent syscall.Signal) (*Server, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", cmd.Path, err)
	}
	// Not the file itself, but a pipe: it is at its end when the last child is.
	out := struct{ io.Writer }{file}
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	endWithParent(cmd.SysProcAttr, withParent)
	s := &Server{cmd: cmd, log: log, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer file.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its error says that the process was killed
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return s, nil
}

// Await waits until the server is ready.
func (s *Server) Await(ctx context.Context, limit time.Duration, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("start %s: it is not ready: %w; see %s", s.cmd.Path, ctx.Err(), s.log)
		case <-s.ended:
			text, _ := os.ReadFile(s.log) // it may be empty
			return fmt.Errorf("start %s: it ended:\n%s", s.cmd.Path, text[max(0, len(text)-4096):])
		case <-tick.C:
		}
	}
	return nil
}

// PID is the id of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// End sends the process a signal, and waits until it and its children have ended. It does nothing if
// they have.
func (s *Server) End(sig syscall.Signal) {
	s.stop.Do(func() { _ = s.cmd.Process.Signal(sig) }) // an error means that it has ended
	<-s.ended
}
