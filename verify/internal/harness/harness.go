// Package harness has what the tests of this module share: it runs the service and brokers in
// processes of their own until a test ends, and skips tests whose programs are not installed.
package harness

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

var (
	bin    = flag.String("bin", "", "binary of the service; it is built if there is none")
	folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "timer-verify-") })
	build  = sync.OnceValues(func() (string, error) {
		dir, err := folder()
		if err != nil {
			return "", err
		}
		return crash.Build(context.Background(), dir)
	})
)

// Main runs the tests of a package, whose binary is the brokers, too, as its TestMain.
func Main(m *testing.M) {
	crash.BrokerMain()
	code := m.Run()
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code) //nolint:forbidigo // TestMain calls this
}

// Must fails the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Need is Must. It skips the test if the error says that this machine lacks a program, which is a
// failure if TIMER_TEST_REQUIRE is set. More are further errors of that kind.
func Need(t testing.TB, err error, more ...error) {
	t.Helper()
	for _, absent := range append(more, rabbitd.ErrNotInstalled, postgresd.ErrNotInstalled, kafkanode.ErrNotInstalled) {
		if errors.Is(err, absent) {
			Missing(t, "%v", err)
		}
	}
	Must(t, err)
}

// Missing skips the test, or fails it if TIMER_TEST_REQUIRE is set.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED, NOTHING IS PROVEN: "+format, args...)
}

// Folder returns a folder that the tests of a package share. It is removed after the last one.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := folder()
	Must(t, err)
	return dir
}

// Binary returns the path of the service, which is built once for the tests of a package.
func Binary(t testing.TB) string {
	t.Helper()
	if *bin != "" {
		return *bin
	}
	path, err := build()
	Must(t, err)
	return path
}

// Serve starts the service in a folder, where its database is unless the settings say otherwise, and
// waits until it takes commands. It is killed when the test ends.
func Serve(t testing.TB, dir string, settings ...string) *crash.Process {
	t.Helper()
	settings = append([]string{"TIMER_DB_PATH=" + filepath.Join(dir, "timers.db")}, settings...)
	p, err := crash.Start(context.WithoutCancel(t.Context()), Binary(t), dir, settings, io.Discard)
	Must(t, err)
	t.Cleanup(func() {
		_ = p.Kill() // fails only if it has ended
		if t.Failed() {
			t.Logf("the service ended with %v; it wrote last:\n%s", p.Err, p.Last(100))
		}
	})
	Must(t, p.Await(t.Context(), 2*time.Minute))
	return p
}

// Until waits until something has happened.
func Until(t testing.TB, what string, within time.Duration, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if pause.Until(ctx, func() (bool, error) { return happened(), nil }) != nil {
		t.Fatalf("waited %v in vain for %s", within, what)
	}
}

// API returns the URL of the API of a service, by what it has printed.
func API(t testing.TB, p *crash.Process) string {
	t.Helper()
	line, ok := p.Find("http ", time.Time{})
	if !ok {
		t.Fatalf("the service has no API:\n%s", p.Last(40))
	}
	url, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line.Text, "http")), ",")
	return url
}

// Port returns a port that nothing listens on.
func Port(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find(t.Context())
	Must(t, err)
	return port
}

// A Broker is one of a test's own.
type Broker struct {
	crash.Server

	kind crash.Kind
	dir  string
	port int
}

// StartBroker starts a broker, which is killed when the test ends.
func StartBroker(t testing.TB, kind crash.Kind) *Broker {
	t.Helper()
	b := &Broker{kind: kind, dir: t.TempDir(), port: Port(t)}
	b.Begin(t)
	t.Cleanup(func() { _ = b.Kill() }) // fails only if it has ended
	return b
}

// Begin starts a broker that was killed, where it was.
func (b *Broker) Begin(t testing.TB) {
	t.Helper()
	var err error
	b.Server, err = crash.StartServer(context.WithoutCancel(t.Context()), b.kind, b.dir, b.port)
	Need(t, err)
}

// URL returns where clients connect.
func (b *Broker) URL() string { return b.kind.URL(b.port) }

// Settings name the broker to the service.
func (b *Broker) Settings() []string {
	return []string{"TIMER_BROKER=" + b.kind.Setting(), "TIMER_BROKER_URL=" + b.URL()}
}
