package faults_test

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A service has one process after the other, the last of which is killed when the test ends.
type service struct {
	*testing.T
	*crash.Process
	environ []string
	url     string // of its API
}

// serve starts a service with settings, and waits until it takes commands.
func serve(t *testing.T, environ ...string) *service {
	t.Helper()
	s := &service{T: t, environ: append([]string{"TIMER_UNKNOWN_TYPES=ignore", "TIMER_HTTP_ADDR=127.0.0.1:0"}, environ...)}
	s.start()
	return s
}

// start starts a process of the service, and waits until it takes commands.
func (s *service) start() {
	s.T.Helper()
	s.Process = harness.Serve(s, s.TempDir(), s.environ...)
	s.url = harness.API(s, s.Process)
}

// says waits for a line since a time that holds a text.
func (s *service) says(text string, since time.Time, within time.Duration) (found crash.Line) {
	s.T.Helper()
	harness.Until(s, fmt.Sprintf("%q", text), within, func() bool {
		var ok bool
		found, ok = s.Find(text, since)
		return ok
	})
	return found
}

// signal sends the process a signal.
func (s *service) signal(sig syscall.Signal) { harness.Must(s, s.Process.Signal(sig)) }

// kill kills the process, which must not have ended by itself.
func (s *service) kill() {
	s.T.Helper()
	harness.Must(s, s.Process.Kill())
	if !s.Killed() {
		s.Errorf("the service ended by itself: %v", s.Err)
	}
}

// stop has the process end in its own time, which must be a clean stop.
func (s *service) stop() { harness.Must(s, s.Process.Stop(time.Minute)) }

// A size says how large a process is.
type size struct{ goroutines, heap int }

// What the service may grow by while something is unreachable.
var more = size{50, 32 << 20}

// measure asks the service for its size.
func (s *service) measure() (is size) {
	s.T.Helper()
	response, err := http.Get(s.url + "/metrics")
	harness.Must(s, err)
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var n float64
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch _, err := fmt.Sscan(value, &n); {
		case err != nil:
		case name == "go_goroutines":
			is.goroutines = int(n)
		case name == "go_memstats_next_gc_bytes": // twice what the last collection left
			is.heap = int(n) / 2
		}
	}
	if is.goroutines == 0 || is.heap == 0 {
		s.Fatalf("the service is of the size %+v", is)
	}
	return is
}

// grew fails the test if the service grew too much.
func grew(t *testing.T, before size, then ...size) {
	t.Helper()
	t.Logf("goroutines and bytes of heap: before %v, then %v", before, then)
	for _, s := range then {
		if s.goroutines > before.goroutines+more.goroutines || s.heap > before.heap+more.heap {
			t.Errorf("grew from %v to %v", before, s)
		}
	}
}

// inFile names the database in a directory to the service.
func inFile(dir string) string { return "TIMER_DB_PATH=" + database(dir) }

func database(dir string) string { return filepath.Join(dir, "timers.db") }
