package faults_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is this binary as another program. It is killed when the test
// ends.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended

	mu   sync.Mutex
	said []line // what it wrote, to stdout and stderr
}

// A line is one that a process wrote.
type line struct {
	at   time.Time
	text string
}

// start starts a program with this environment, and nothing of that of the test.
func start(t *testing.T, program string, environ ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self), ended: make(chan struct{})}
	p.cmd.Env = append([]string{asProgram + "=" + program, "TIMER_UNKNOWN_TYPES=ignore"}, environ...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for _, out := range []io.Reader{stdout, stderr} {
		readers.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				p.hear(lines.Text())
			}
		})
	}
	go func() {
		defer close(p.ended)
		readers.Wait()
		_ = p.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails only if it has ended
		<-p.ended
		if t.Failed() {
			t.Logf("%s wrote last:\n%s", program, p.last(40))
		}
	})
	return p
}

func (p *process) hear(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, line{time.Now(), text})
}

func (p *process) last(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.said[max(0, len(p.said)-n):] {
		fmt.Fprintf(&b, "%s %.400s\n", l.at.Format("15:04:05.000"), l.text)
	}
	return b.String()
}

// find returns the first line since a time that holds a text.
func (p *process) find(text string, since time.Time) (line, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.said {
		if l.at.After(since) && strings.Contains(l.text, text) {
			return l, true
		}
	}
	return line{}, false
}

// says waits for a line since a time that holds a text.
func (p *process) says(text string, since time.Time, within time.Duration) (found line) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%q", text), within, func() bool {
		var ok bool
		found, ok = p.find(text, since)
		return ok
	})
	return found
}

// alive reports whether the process runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// ends waits for the end, and returns the exit code.
func (p *process) ends(within time.Duration) int {
	p.t.Helper()
	await(p.t, "the end of the process", within, func() bool { return !p.alive() })
	return p.cmd.ProcessState.ExitCode()
}

// stop has it end in its own time, which must be a clean stop.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.ends(time.Minute); code != 0 {
		p.t.Errorf("after SIGTERM it ended with exit code %d", code)
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// A size says how large a process is.
type size struct {
	goroutines int
	heap       int64 // bytes
}

// measure has the service print its size.
func (p *process) measure() (s size) {
	p.t.Helper()
	asked := time.Now()
	p.signal(syscall.SIGUSR1)
	said := p.says("size ", asked, time.Minute)
	if _, err := fmt.Sscanf(said.text, "size %d %d", &s.goroutines, &s.heap); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// await polls until something has happened.
func await(t *testing.T, what string, within time.Duration, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(within)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v in vain for %s", within, what)
		}
	}
}

// database is the name of the database in a directory.
func database(dir string) string { return filepath.Join(dir, "timers.db") }
