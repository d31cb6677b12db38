package service_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/service"
)

// TestStopsWhileItWaitsForTheDatabase is stopped before there is one.
func TestStopsWhileItWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	cfg := load(t, "TIMER_BROKER=gochannel", "TIMER_DB_URL=postgres://user:secret@"+closed.Addr().String()+"/timers?sslmode=disable")
	ctx, stop := context.WithCancel(t.Context())
	logs := stopper{on: "waiting for the database", stop: stop}
	if err := service.Run(ctx, cfg, io.Discard, slog.New(slog.NewTextHandler(&logs, nil))); err != nil {
		t.Errorf("Run: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("it did not wait")
	}
	if strings.Contains(logs.text, "secret") {
		t.Errorf("the log has the password: %s", logs.text)
	}
}

// A stopper stops the service when it writes something to its log.
type stopper struct {
	on   string
	stop context.CancelFunc
	text string
}

func (s *stopper) Write(text []byte) (int, error) {
	s.text += string(text)
	if strings.Contains(s.text, s.on) {
		s.stop()
	}
	return len(text), nil
}
