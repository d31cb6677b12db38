package service_test

import (
	"errors"
	"testing"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/service"
)

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
