package service_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/timer"
)

// ends returns the error with which a service ends by itself.
func (r *runningService) ends() error {
	r.t.Helper()
	for r.lines.Scan() {
	}
	r.once.Do(func() {
		select {
		case r.err = <-r.ended:
		case <-time.After(time.Minute):
			r.t.Fatal("the service did not end")
		}
	})
	return r.err
}

// refused fails the test unless a service ended because of what all the words say.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, timer.ErrFatal) {
		t.Fatalf("Run: %v, want ErrFatal", err)
	}
	for _, word := range append(words, "--takeover") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Run: %v, want %q in it", err, word)
		}
	}
}

// TestOneDatabaseOwnsTheCommands starts a service with a database of its own next to
// another one on the same broker: it is refused by name, and then takes over.
func TestOneDatabaseOwnsTheCommands(t *testing.T) {
	t.Parallel()
	url := natsServer(t)
	first, second := load(t, "TIMER_BROKER_URL="+url), load(t, "TIMER_BROKER_URL="+url)
	for _, cfg := range []config.Config{first, second} {
		due(t, cfg.DBPath, "call", time.Now().Add(time.Hour)) // one that is empty might take the place of one that was lost
	}
	owner := run(t, first)
	owner.line("ready")
	refused(t, service.Run(t.Context(), second, io.Discard, quiet),
		"timer.commands on "+url, "sqlite "+first.DBPath+" on ", "sqlite "+second.DBPath+" on ")

	second.Takeover = true
	taker := run(t, second)
	taker.line("ready")
	refused(t, owner.ends(), "sqlite "+second.DBPath)
	taker.stops()
	refused(t, service.Run(t.Context(), first, io.Discard, quiet), "sqlite "+second.DBPath)

	second.Takeover = false
	again := run(t, second)
	again.line("ready")
	again.stops()
}

// TestDatabaseThatRabbitMQCanNotBringBackIsNamed removes it, and starts twice.
func TestDatabaseThatRabbitMQCanNotBringBackIsNamed(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "r") // RabbitMQ has space for a short name only
	must(t, err)
	defer os.RemoveAll(dir)
	cfg := load(t, append(rabbitSite(t).environ, "TIMER_DB_PATH="+filepath.Join(dir, "t.db"))...)
	r := run(t, cfg)
	r.line("ready")
	r.stops()
	must(t, os.Remove(cfg.DBPath))
	for range 2 {
		err := service.Run(t.Context(), cfg, io.Discard, quiet)
		refused(t, err, "belong to another database that was at the same place", "RabbitMQ keeps no message that was acked")
		if strings.Contains(err.Error(), "not empty") {
			t.Errorf("it is empty: %v", err)
		}
	}
	cfg.Takeover = true
	r = run(t, cfg)
	r.line("ready")
	r.stops()
}

func TestServiceThatVerifiesWaitsForWhatAnAdministratorMakes(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	must(t, err)
	t.Cleanup(server.Shutdown)
	cfg := load(t, "TIMER_BROKER_URL="+server.URL(), "TIMER_PROVISION=verify")
	r := run(t, cfg)
	r.line("waiting")
	if changes, err := service.Provision(t.Context(), cfg, false, quiet); err != nil || len(changes) != 3 {
		t.Fatalf("Provision: %v, %v", changes, err)
	}
	r.line("ready")
	r.stops()
	if _, err := service.Provision(t.Context(), load(t), false, quiet); !errors.Is(err, service.ErrNothingToProvision) {
		t.Errorf("with the embedded server: %v", err)
	}
}
