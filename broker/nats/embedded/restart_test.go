package embedded

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// TestRestartLetsGuestsIn restarts the server as it does after its disk was full.
func TestRestartLetsGuestsIn(t *testing.T) {
	t.Parallel()
	s, err := Start(Options{StoreDir: t.TempDir(), SyncLazily: true, Access: &Access{
		Password: "secret", Stream: "svc", Commands: "timer.commands", Events: "svc.*.serviceCall",
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	shutDown(s.current.Load())
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	guest, err := natsgo.Connect(s.URL(), natsgo.Timeout(time.Minute), natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	if err := errors.Join(guest.Publish("svc.acme.serviceCall", nil), guest.Flush()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(guest.LastError(), natsgo.ErrPermissionViolation) {
		t.Errorf("a guest may publish events after a restart: %v", guest.LastError())
	}
}

// TestAStartThatFailsSaysWhy takes the port of a server while it is down.
func TestAStartThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	s, err := Start(Options{StoreDir: t.TempDir(), SyncLazily: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	shutDown(s.current.Load())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.launch(); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a server whose port another one took: %v", err)
	}
}
