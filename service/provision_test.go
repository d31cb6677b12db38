package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/service"
)

func TestGoChannelSaysThatItIsNotDurable(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var log bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, load(t, "TIMER_BROKER=gochannel"), out, slog.New(slog.NewTextHandler(&log, nil)))
		out.Close()
	}()
	var printed strings.Builder
	one := make([]byte, 1)
	for !strings.Contains(printed.String(), "ready") {
		if _, err := in.Read(one); err != nil {
			t.Fatal(err)
		}
		printed.Write(one)
	}
	stop()
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if !strings.Contains(printed.String(), "nothing is durable") {
		t.Errorf("prints\n%s", &printed)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "in the memory of this process") {
		t.Errorf("logs\n%s", text)
	}
}

func TestServiceThatVerifiesWaitsForWhatAnAdministratorMakes(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	cfg := load(t, "TIMER_BROKER_URL="+server.URL(), "TIMER_PROVISION=verify")
	r := run(t, cfg)
	r.line("waiting")
	if changes, err := service.Provision(t.Context(), cfg, false, quiet); err != nil || len(changes) != 3 {
		t.Fatalf("Provision: %v, %v", changes, err)
	}
	r.line("ready")
	if err := r.finish(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := service.Provision(t.Context(), load(t), false, quiet); !errors.Is(err, service.ErrNothingToProvision) {
		t.Errorf("with the embedded server: %v", err)
	}
}
