package embedded_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

var quiet = slog.New(slog.DiscardHandler)

func TestAPortThatIsTakenIsReplacedByAFreeOneOfTheLoopback(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, port := range []int{taken, 0} {
		s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Port: port}, quiet)
		must(t, err)
		defer s.Shutdown()
		if host, got := s.Address(); host != "127.0.0.1" || got == taken {
			t.Errorf("asked for %d, got %s", port, s.URL())
		}
		connect(t, s.URL())
	}
	if s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Port: taken, PortOnly: true}, quiet); err == nil {
		s.Shutdown()
		t.Error("a server on a port that is taken")
	}
}

// TestAServerKeepsItsMessagesToItself restarts a server in a folder that it has made, and
// tries to start another one there.
func TestAServerKeepsItsMessagesToItself(t *testing.T) {
	t.Parallel()
	opt := embedded.Options{StoreDir: filepath.Join(t.TempDir(), "made", "here"), DontListen: true}
	for n, lazily := range []bool{false, true, false} {
		opt.SyncLazily = lazily
		s, err := embedded.Start(opt, quiet)
		must(t, err)
		defer s.Shutdown()
		js, err := jetstream.New(connect(t, "", natsgo.InProcessServer(s)).Conn, jetstream.WithDefaultTimeout(time.Minute))
		must(t, err)
		stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>"}})
		must(t, err)
		if kept := stream.CachedInfo().State.Msgs; kept != uint64(n) {
			t.Errorf("%d messages are kept, want %d", kept, n)
		}
		if _, err := js.Publish(t.Context(), event, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := embedded.Start(opt, quiet); err == nil || !strings.Contains(err.Error(), "broker_url") {
			t.Errorf("a second server in the folder: %v, want an error that says what to do", err)
		}
		s.Shutdown()
	}
	if info, err := os.Stat(opt.StoreDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
}

func TestAServerNeedsAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{"", file} {
		if s, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, quiet); err == nil {
			s.Shutdown()
			t.Errorf("a server with its data in %q", dir)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
