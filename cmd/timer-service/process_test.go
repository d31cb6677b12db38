package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A process is the program as a process of its own.
type process struct {
	*exec.Cmd
	lines  *bufio.Scanner // of its stdout
	stderr overheard
}

// An overheard is what a process writes while others listen.
type overheard struct {
	mu    sync.Mutex
	text  strings.Builder
	word  string        // somebody waits for
	heard chan struct{} // closed when the word comes
}

// Write adds what was written.
func (o *overheard) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if o.heard != nil && strings.Contains(o.text.String(), o.word) {
		close(o.heard)
		o.heard = nil
	}
	return len(p), nil
}

// String returns all that was written.
func (o *overheard) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// hears returns a channel that is closed when a word is written. It is asked
// once, before the process starts.
func (o *overheard) hears(word string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	heard := make(chan struct{})
	o.word, o.heard = word, heard
	return heard
}

// start starts the program, which "main" or a part of it, and kills it when the
// test ends.
func start(t *testing.T, which string, args ...string) *process {
	t.Helper()
	return startIn(t, nil, which, args...)
}

// startIn is start, with more in the environment.
func startIn(t *testing.T, environ []string, which string, args ...string) *process {
	t.Helper()
	p := prepare(t, environ, which, args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// prepare returns the program, ready to be started.
func prepare(t *testing.T, environ []string, which string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), self, args...)}
	p.Env = append([]string{asProgram + "=" + which}, environ...)
	p.Dir = t.TempDir()
	p.Stderr = &p.stderr
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end, and returns the exit code.
func (p *process) ends(t *testing.T) int {
	t.Helper()
	for p.lines.Scan() {
	}
	if err := p.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return p.ProcessState.ExitCode()
}

func TestServeStopsCleanlyOnASignal(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, "main", "serve", "--nats-port", "0")
			p.prints(t, "ready")
			p.signal(t, s)
			if code := p.ends(t); code != exitOK {
				t.Errorf("exit code %d, want %d\n%s", code, exitOK, p.stderr.String())
			}
		})
	}
}

func TestServeTellsWhyItCannotStart(t *testing.T) {
	t.Parallel()
	p := start(t, "main", "serve", "--nats-port", "0", "--db-path", filepath.Join("no", "such", "folder.db"))
	want := program + ": create the database: there is no folder no/such\n"
	if code := p.ends(t); code != exitFailure || !strings.HasSuffix(p.stderr.String(), want) {
		t.Errorf("exit code %d, want %d and the folder\n%s", code, exitFailure, p.stderr.String())
	}
}

func TestNothingAskedIsExitCodeTwo(t *testing.T) {
	t.Parallel()
	p := start(t, "main")
	if code := p.ends(t); code != exitUsage || !strings.Contains(p.stderr.String(), "Usage: timer-service") {
		t.Errorf("exit code %d, want %d and the help\n%s", code, exitUsage, p.stderr.String())
	}
}

// stuck is a program that does not stop when it is told to.
func stuck() {
	ctx := untilSignal()
	fmt.Println("running")
	<-ctx.Done()
	fmt.Println("stopping")
	select {}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, "stuck")
	p.prints(t, "running")
	p.signal(t, syscall.SIGTERM)
	p.prints(t, "stopping")
	p.signal(t, syscall.SIGTERM)
	if code := p.ends(t); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
}
