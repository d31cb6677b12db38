package main

import (
	"log/slog"
	"testing"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// TestProvision makes the missing objects once, and names missing ones in a dry run, and ones that
// do not fit.
func TestProvision(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(server.Shutdown)
	environ := []string{"TIMER_BROKER_URL=" + server.URL(), "TIMER_NATS_STREAM=timers"}
	for range 2 { // the first makes nothing
		do(t, environ, "provision", "--dry-run").wants(t, exitOK).prints(t, "would make stream timers: ").prints(t, "\nwould make consumer timer-service_timer-commands: ")
	}
	do(t, environ, "provision", "-o", "json").wants(t, exitOK).prints(t, `{"changes":[{"object":"stream timers","detail":"`).prints(t, `"dryRun":false}`)
	do(t, environ, "provision").wants(t, exitOK).prints(t, "nothing to do\n")
	do(t, append(environ, "TIMER_NATS_MIN_AGE=4d", "TIMER_NATS_MAX_AGE=4d"), "provision").wants(t, exitFailure).says(t, "max_age is 72h")
	do(t, []string{"TIMER_BROKER_URL=nats://u:hunter2@127.0.0.1:1"}, "provision").wants(t, exitFailure).says(t, "provision nats://***@127.0.0.1:1")
	do(t, nil, "provision").wants(t, exitOK).prints(t, "nothing to do: the broker lives inside the serving process")
}
