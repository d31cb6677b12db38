// Package interop_test proves that the service works with the software of others: the
// programs of the docs in other languages, generated clients, validators of schemas, the
// SDK of CloudEvents, and the libraries through which a host uses its database.
package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/event-service-agent/timer-service/service" // what the program is made of
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// need returns the path of a program.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		harness.Missing(t, "%s is not installed: %v", name, err)
	}
	return path
}

// folder returns a new folder in which programs for Node find what the package.json of a
// folder names. npm installs that once for all of them.
func folder(t *testing.T, of string) string {
	t.Helper()
	npm := need(t, "npm")
	installing.Lock()
	defer installing.Unlock()
	to := filepath.Join(harness.Folder(t), "node-"+filepath.Base(of))
	if _, err := os.Stat(filepath.Join(to, "node_modules")); err != nil {
		harness.Must(t, os.MkdirAll(to, 0o700))
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join(of, name))
			harness.Must(t, err)
			write(t, to, name, string(content))
		}
		cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
		cmd.Dir = to
		if out, err := cmd.CombinedOutput(); err != nil {
			harness.Missing(t, "npm ci: %v\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp(to, "programs-")
	harness.Must(t, err)
	return dir
}

// installed returns the path of a file of an installed package, seen from a [folder].
func installed(name string) string { return filepath.Join("..", "node_modules", name) }

// serveIn runs the service with settings until the test ends, with a folder for its
// database, timers.db, and returns what it prints, by the first word of a line.
func serveIn(t *testing.T, dir string, settings ...string) map[string]string {
	t.Helper()
	p := harness.Serve(t, dir, settings...)
	t.Cleanup(func() {
		if err := p.Stop(time.Minute); err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
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
	harness.Must(t, err)
	return strings.Replace(address, "://", "://timer-service:"+strings.TrimSpace(string(secret))+"@", 1)
}

var installing sync.Mutex // of programs and libraries, in the folder of the tests

func TestMain(m *testing.M) { harness.Main(m) }
