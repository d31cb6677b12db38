// Package interop_test proves that the service works with the software of others: the
// programs of the docs in other languages, generated clients, validators of schemas, the
// SDK of CloudEvents, and the libraries through which a host uses its database.
package interop_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	_ "github.com/event-service-agent/timer-service/service" // what the program is made of
	"github.com/event-service-agent/timer-service/verify/crash"
)

// need returns the path of a program.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "%s is not installed: %v", name, err)
	}
	return path
}

// missing skips the test, or fails it if $TIMER_TEST_REQUIRE is set.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED, NOTHING IS PROVEN: "+format, args...)
}

// folder returns a new folder in which programs for Node find what the package.json of a
// folder names. npm installs that once for all of them.
func folder(t *testing.T, of string) string {
	t.Helper()
	npm := need(t, "npm")
	installing.Lock()
	defer installing.Unlock()
	to := filepath.Join(temporary, "node-"+filepath.Base(of))
	if _, err := os.Stat(filepath.Join(to, "node_modules")); err != nil {
		must(t, os.MkdirAll(to, 0o700))
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join(of, name))
			must(t, err)
			write(t, to, name, string(content))
		}
		cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
		cmd.Dir = to
		if out, err := cmd.CombinedOutput(); err != nil {
			missing(t, "npm ci: %v\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp(to, "programs-")
	must(t, err)
	return dir
}

// installed returns the path of a file of an installed package, seen from a [folder].
func installed(name string) string { return filepath.Join("..", "node_modules", name) }

// serveIn runs the service with settings until the test ends, with a folder for its
// database, timers.db, and returns what it prints, by the first word of a line.
func serveIn(t *testing.T, dir string, settings ...string) map[string]string {
	t.Helper()
	settings = append([]string{"TIMER_DB_PATH=" + filepath.Join(dir, "timers.db")}, settings...)
	p, err := crash.Start(context.WithoutCancel(t.Context()), binary(t), dir, settings, io.Discard)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Stop(time.Minute); err != nil {
			t.Errorf("the service ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the service:\n%s", p.Last(100))
		}
	})
	must(t, p.Await(t.Context(), time.Minute))
	printed := make(map[string]string)
	for _, l := range p.Lines() {
		word, text, _ := strings.Cut(l.Text, " ")
		printed[word] = strings.TrimSpace(text)
	}
	return printed
}

// embedded are the settings of a service that is its own broker, and has an API.
var embedded = []string{"TIMER_BROKER=nats", "TIMER_BROKER_URL=", "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR=127.0.0.1:0"}

// api is the address of the API of a service, by what that printed.
func api(printed map[string]string) string {
	address, _, _ := strings.Cut(printed["http"], ",")
	return address
}

// asOwner adds the credentials of the broker within a service to its address: who reads dead
// letters needs them.
func asOwner(t *testing.T, dir, address string) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(dir, "timers.nats", "secret"))
	must(t, err)
	return strings.Replace(address, "://", "://timer-service:"+strings.TrimSpace(string(secret))+"@", 1)
}

// startBroker runs a broker until the test ends, and returns its URL.
func startBroker(t *testing.T, kind crash.Kind) string {
	t.Helper()
	port, err := freeport.Find(t.Context())
	must(t, err)
	b, err := crash.StartServer(context.WithoutCancel(t.Context()), kind, t.TempDir(), port)
	if errors.Is(err, rabbitd.ErrNotInstalled) {
		missing(t, "%v", err)
	}
	must(t, err)
	t.Cleanup(func() { _ = b.Kill() }) // fails only if it has ended
	return kind.URL(port)
}

// binary returns the path of the service.
func binary(t *testing.T) string {
	t.Helper()
	bin, err := build()
	must(t, err)
	return bin
}

var (
	temporary  string // the folder with the programs that the tests compile and install
	build      = sync.OnceValues(func() (string, error) { return crash.Build(context.Background(), temporary) })
	installing sync.Mutex
)

func TestMain(m *testing.M) {
	crash.BrokerMain()
	var err error
	if temporary, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(temporary)
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
