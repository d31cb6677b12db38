package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A process is the program as a process of its own.
type process struct {
	*exec.Cmd
	lines  *bufio.Scanner // of its stdout
	stderr stream
}

// A stream keeps the output of a process, and notifies a test of a word in it.
type stream struct {
	mu    sync.Mutex
	text  strings.Builder
	word  string        // that a test waits for
	found chan struct{} // closed when the word is written
}

// Write adds output.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if s.found != nil && strings.Contains(s.text.String(), s.word) {
		close(s.found)
		s.found = nil
	}
	return len(p), nil
}

// String returns all that was written.
func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// expects returns a channel that is closed when a word is written, or was. It
// waits for one word at a time.
func (s *stream) expects(word string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(chan struct{})
	if strings.Contains(s.text.String(), word) {
		close(found)
		return found
	}
	s.word, s.found = word, found
	return found
}

// start starts the program, "main" or "stuck", and kills it when the test ends.
func start(t *testing.T, which string, args ...string) *process {
	t.Helper()
	return startIn(t, nil, which, args...)
}

// startIn is start, with more in the environment.
func startIn(t *testing.T, environ []string, which string, args ...string) *process {
	t.Helper()
	p := prepare(t, environ, which, args...)
	must(t, p.Start())
	t.Cleanup(func() { _ = p.Wait() }) // before its folders are removed
	return p
}

// prepare returns the program, ready to be started.
func prepare(t *testing.T, environ []string, which string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	p := &process{Cmd: exec.CommandContext(t.Context(), self, args...)}
	p.Env = append([]string{asProgram + "=" + which}, environ...)
	p.Dir = t.TempDir()
	p.Stderr = &p.stderr
	stdout, err := p.StdoutPipe()
	must(t, err)
	p.lines = bufio.NewScanner(stdout)
	return p
}

// prints waits for a line of stdout that begins with a word.
func (p *process) prints(t *testing.T, word string) {
	t.Helper()
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), word) {
			return
		}
	}
	_ = p.Wait()
	t.Fatalf("ended without printing %q: %v\n%s", word, p.ProcessState, p.stderr.String())
}

// signal sends a signal.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	must(t, p.Process.Signal(s))
}

// ends waits for the end, and returns the exit code and the errors.
func (p *process) ends(t *testing.T) ran {
	t.Helper()
	for p.lines.Scan() {
	}
	if err := p.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return ran{code: p.ProcessState.ExitCode(), stderr: p.stderr.String()}
}

// announces waits for the line of a part, and returns its text up to a comma.
func (p *process) announces(t *testing.T, part string) string {
	t.Helper()
	p.prints(t, part+" ")
	text, _, _ := strings.Cut(strings.TrimPrefix(p.lines.Text(), part), ",")
	return strings.TrimSpace(text)
}

func TestServeStopsCleanlyOnASignal(t *testing.T) {
	t.Parallel()
	p := start(t, "main", "serve", "--nats-port", "0")
	p.prints(t, "ready")
	p.signal(t, syscall.SIGHUP) // changes nothing
	p.signal(t, syscall.SIGTERM)
	p.ends(t).wants(t, exitOK)
}

// stuck is a program that does not stop at the first signal.
func stuck() {
	ctx := untilSignal()
	fmt.Println("running")
	<-ctx.Done()
	fmt.Println("stopping")
	select {}
}

// thief is a program that listens on a unix socket before the service does, and prints the bytes
// that clients send.
func thief() {
	l, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	_ = os.Chmod(os.Args[1], 0o777) //nolint:gosec // a thief wants to be asked
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			fmt.Println("sent", r.Header.Get("Authorization"))
		} else {
			fmt.Println("nothing")
		}
		_ = conn.Close()
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, "stuck")
	p.prints(t, "running")
	p.signal(t, syscall.SIGTERM)
	p.prints(t, "stopping")
	p.signal(t, syscall.SIGTERM)
	p.ends(t).wants(t, exitFailure)
}
