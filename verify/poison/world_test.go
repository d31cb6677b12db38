package poison_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	program = "github.com/event-service-agent/timer-service/cmd/timer-service"
	server  = "github.com/nats-io/nats-server/v2"
	stream  = "svc"
)

// brokerConfig allows those who send commands to publish nothing else. Messages may
// be larger than by default.
const brokerConfig = `
host: 127.0.0.1
port: -1
ports_file_dir: %[1]q
log_file: "%[1]s/broker.log"
max_payload: 8MB
ping_interval: "1h"
jetstream { store_dir: "%[1]s/broker" }
SENDER: { publish: [%[2]q], subscribe: "_INBOX.>" }
authorization { users: [
  { user: service, password: secret }
  { user: judge, password: secret }
  { user: producer, password: producer, permissions: $SENDER }
  { user: attacker, password: attacker, permissions: $SENDER }
] }
`

// A world is a broker and the service, each a process of its own.
type world struct {
	*testing.T
	address string // of the broker
	js      jetstream.JetStream
	service *exec.Cmd
	ended   chan struct{} // closed when the service has ended
	err     error         // how it ended
	log     bytes.Buffer  // of the service; read it when it has ended
}

// begin starts a broker and the service with these settings. Senders may
// publish to a subject.
func begin(t *testing.T, subject string, settings ...string) *world {
	t.Helper()
	w := &world{T: t, ended: make(chan struct{})}
	dir := t.TempDir()
	w.startBroker(dir, subject)
	nc, err := nats.Connect(w.url("judge", "secret"), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if w.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	w.startService(dir, settings)
	return w
}

func (w *world) url(user, password string) string {
	return (&url.URL{Scheme: "nats", Host: w.address, User: url.UserPassword(user, password)}).String()
}

func (w *world) startBroker(dir, subject string) {
	config := filepath.Join(dir, "broker.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, brokerConfig, dir, subject), 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(w.Context()), build(w.T, dir, server), "--config", config)
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	w.until("the broker listens", 30*time.Second, func() bool {
		var said struct{ NATS []string }
		for _, name := range must(filepath.Glob(filepath.Join(dir, "*.ports"))) {
			text, err := os.ReadFile(name)
			if err != nil || json.Unmarshal(text, &said) != nil {
				return false // it is being written
			}
		}
		if len(said.NATS) == 0 {
			return false
		}
		w.address = strings.TrimPrefix(said.NATS[0], "nats://")
		return true
	})
}

func (w *world) startService(dir string, settings []string) {
	touch(w.T)
	cmd := exec.CommandContext(context.WithoutCancel(w.Context()), build(w.T, dir, program), "serve")
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TIMER_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "TIMER_DB_PATH="+filepath.Join(dir, "timers.db"), "TIMER_BROKER=nats", "TIMER_UNKNOWN_TYPES=ignore", "TIMER_BROKER_URL="+w.url("service", "secret"))
	cmd.Env = append(cmd.Env, settings...)
	ready := make(chan struct{})
	out := &said{word: "ready", found: sync.OnceFunc(func() { close(ready) })}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out), &w.log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.service = cmd
	go func() {
		w.err = cmd.Wait()
		close(w.ended)
	}()
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-w.ended
		if w.Failed() {
			w.Logf("the service ended with %v; the end of its log:\n%s", w.err, w.log.Bytes()[max(0, w.log.Len()-5_000):])
		}
	})
	select {
	case <-ready:
	case <-w.ended:
		w.Fatalf("the service ended before it was ready: %v\n%s", w.err, &w.log)
	case <-time.After(time.Minute):
		w.Fatal("the service does not get ready")
	}
}

// must returns what can't fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// said finds a word at the beginning of a line.
type said struct {
	word  string
	found func()
	text  []byte
}

func (s *said) Write(p []byte) (int, error) {
	s.text = append(s.text, p...)
	if bytes.HasPrefix(s.text, []byte(s.word)) || bytes.Contains(s.text, []byte("\n"+s.word)) {
		s.found()
	}
	return len(p), nil
}

// alive reports whether the service is still the process that was started.
func (w *world) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// stop ends the service as an operator does.
func (w *world) stop() {
	if !w.alive() {
		w.Errorf("the service ended by itself: %v", w.err)
		return
	}
	if err := w.service.Process.Signal(syscall.SIGTERM); err != nil {
		w.Error(err)
	}
	select {
	case <-w.ended:
	case <-time.After(30 * time.Second):
		w.Fatal("the service does not stop")
	}
	if w.err != nil {
		w.Errorf("the service ended with %v", w.err)
	}
}

var peakForm = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the most memory the service had so far, as people read it.
func (w *world) peak() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.service.Process.Pid))
	if found := peakForm.FindSubmatch(status); err == nil && found != nil {
		return string(found[1]) + " kB"
	}
	return "unknown on " + runtime.GOOS
}

// until waits for a condition.
func (w *world) until(what string, limit time.Duration, met func() bool) {
	w.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for !met() {
		select {
		case <-tick.C:
		case <-late:
			w.Errorf("%s: not within %v", what, limit)
			return
		}
	}
}

// build compiles a program.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	binary := filepath.Join(dir, filepath.Base(pkg)+".bin")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// touch reads the state of the files of the program, so that the test
// is not taken from the cache when one of them changes.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../../cmd/timer-service", func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
