package nats_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

func TestEmbeddedTakesAFreePortIfItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, port := range []int{taken, 0} {
		e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Port: port}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Shutdown()
		if got := portOf(t, e.URL()); got == taken || e.PortTaken() != (port == taken) {
			t.Errorf("asked for %d, which is taken: %v; got %d", port, e.PortTaken(), got)
		}
		conn, err := natsgo.Connect(e.URL(), unhurried)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestEmbeddedListensOnTheLoopbackOnly(t *testing.T) {
	t.Parallel()
	e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown()
	if host, _, err := net.SplitHostPort(e.URL()[len("nats://"):]); err != nil || host != "127.0.0.1" {
		t.Errorf("listens on %s", e.URL())
	}
}

func TestEmbeddedKeepsItsDataToItself(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "here")
	e, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v (%v)", info.Mode(), err)
	}
	if url := e.URL(); url != "" {
		t.Errorf("a server that does not listen is at %s", url)
	}
}

func TestEmbeddedKeepsMessagesOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, lazily := range []bool{false, true, false} {
		e, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true, SyncLazily: lazily}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Run("", func(t *testing.T) {
			b := ready(t, nats.Options{Server: e})
			if i > 0 {
				s := b.Subscriber("reader")
				messages, err := s.Subscribe(t.Context(), topic)
				if err != nil {
					t.Fatal(err)
				}
				expect(t, messages, fmt.Sprint("kept by ", i-1))
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			publish(t, b, fmt.Sprint("kept by ", i))
		})
		e.Shutdown()
	}
}

func TestEmbeddedNeedsADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file} {
		if e, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, quiet); err == nil {
			e.Shutdown()
			t.Errorf("a server with its data in %q", dir)
		}
	}
}

// TestEmbeddedHasItsFolderAlone starts a second server on the same data, on
// another port.
func TestEmbeddedHasItsFolderAlone(t *testing.T) {
	t.Parallel()
	opt := embedded.Options{StoreDir: t.TempDir(), DontListen: true}
	first, err := embedded.Start(opt, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(opt, quiet); err == nil || !strings.Contains(err.Error(), "broker_url") {
		t.Errorf("the second server: %v, want one that says what to do", err)
	}
	first.Shutdown()
	again, err := embedded.Start(opt, quiet)
	if err != nil {
		t.Fatal(err)
	}
	again.Shutdown()
}
