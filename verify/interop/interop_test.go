// Package interop_test proves that the service works with the software of others: the
// programs of the docs in other languages, generated clients, validators of schemas, the
// SDK of CloudEvents, and the libraries through which a host uses its database.
package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	_ "github.com/event-service-agent/timer-service/service" // what the program is made of
)

const program = "github.com/event-service-agent/timer-service/cmd/timer-service"

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

// folder returns a new folder in which programs for Node find what package.json names. npm
// installs that once for all of them.
func folder(t *testing.T) string {
	t.Helper()
	npm := need(t, "npm")
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(filepath.Join(temporary, "node_modules")); err != nil {
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, temporary, name, string(content))
		}
		cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
		cmd.Dir = temporary
		if out, err := cmd.CombinedOutput(); err != nil {
			missing(t, "npm ci: %v\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp(temporary, "programs-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// installed returns the path of a file of an installed package, seen from a [folder].
func installed(name string) string { return filepath.Join("..", "node_modules", name) }

// serveIn runs the service with settings until the test ends, with a folder for its
// database, timers.db, and returns the address of its broker.
func serveIn(t *testing.T, dir string, settings ...string) string {
	t.Helper()
	return asOwner(dir, serveLines(t, dir, settings...)["ready"])
}

// serveLines is serveIn, and returns what the service prints, by the first word of a
// line.
func serveLines(t *testing.T, dir string, settings ...string) map[string]string {
	t.Helper()
	// It is ended by a signal, when the context of the test is over already.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), build(t), "serve")
	cmd.Dir = dir
	cmd.Env = append(append(environ(), "TIMER_DB_PATH="+filepath.Join(dir, "timers.db")), settings...)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, cmd, stdout, &log) })

	lines := bufio.NewScanner(stdout)
	printed := make(map[string]string)
	for lines.Scan() {
		word, text, _ := strings.Cut(lines.Text(), " ")
		printed[word] = strings.TrimSpace(text)
		if word == "ready" {
			return printed
		}
	}
	t.Fatal("the service ended before it was ready; its log follows")
	return nil
}

// asOwner adds the credentials of the broker within a service, if it has one, to
// its address: who reads dead letters needs them.
func asOwner(dir, address string) string {
	secret, err := os.ReadFile(filepath.Join(dir, "timers.nats", "secret"))
	if err != nil {
		return address
	}
	return strings.Replace(address, "://", "://timer-service:"+strings.TrimSpace(string(secret))+"@", 1)
}

// stop ends the service as an operator does, and waits for it.
func stop(t *testing.T, cmd *exec.Cmd, stdout io.Reader, log fmt.Stringer) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("stop the service: %v", err)
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Errorf("read what the service prints: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	if t.Failed() {
		t.Logf("log of the service:\n%s", log)
	}
}

// build compiles the program, once.
func build(t *testing.T) string {
	t.Helper()
	touch(t)
	binary := filepath.Join(temporary, "timer-service")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, program).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

var (
	temporary  string // the folder with the programs that the tests compile and install
	building   sync.Mutex
	installing sync.Mutex
)

func TestMain(m *testing.M) {
	var err error
	if temporary, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(temporary)
	os.Exit(code)
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

// environ returns the environment without settings of the service.
func environ() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TIMER_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
