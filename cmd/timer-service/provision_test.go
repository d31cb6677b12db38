package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

func TestProvision(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	environ := []string{"TIMER_BROKER_URL=" + server.URL(), "TIMER_NATS_STREAM=timers"}

	for range 2 { // the first makes nothing
		got := do(t, environ, "provision", "--dry-run").wants(t, exitOK).stdout
		if !strings.HasPrefix(got, "would make stream timers: ") || !strings.Contains(got, "\nwould make consumer timer-service_timer-commands: ") {
			t.Errorf("a dry run says\n%s", got)
		}
	}
	var made provisioned
	if err := json.Unmarshal([]byte(do(t, environ, "provision", "-o", "json").wants(t, exitOK).stdout), &made); err != nil {
		t.Fatal(err)
	}
	if len(made.Changes) != 3 || made.DryRun || made.Changes[0].Object != "stream timers" || made.Changes[0].Detail == "" {
		t.Errorf("made %+v", made)
	}
	if got := do(t, environ, "provision").wants(t, exitOK).stdout; got != "nothing to do: all is there\n" {
		t.Errorf("the second time it says\n%s", got)
	}
	unfit := do(t, append(environ, "TIMER_NATS_MIN_AGE=4d", "TIMER_NATS_MAX_AGE=4d"), "provision").wants(t, exitFailure)
	if !strings.Contains(unfit.stderr, "max_age is 72h") {
		t.Errorf("a stream that forgets too soon: %s", unfit.stderr)
	}
	if got := do(t, environ, "provision", "-o", "json", "--dry-run").wants(t, exitOK).stdout; got != "{\"changes\":[],\"dryRun\":true}\n" {
		t.Errorf("as JSON: %s", got)
	}
}

func TestProvisionOfAnAbsentServerFails(t *testing.T) {
	t.Parallel()
	got := do(t, []string{"TIMER_BROKER_URL=nats://u:hunter2@127.0.0.1:1"}, "provision").wants(t, exitFailure)
	if strings.Contains(got.stderr, "hunter2") || !strings.Contains(got.stderr, "127.0.0.1:1") {
		t.Errorf("says %s", got.stderr)
	}
}

func TestProvisionOfABrokerInsideTheServiceIsNotNeeded(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{nil, {"TIMER_BROKER=gochannel"}} {
		got := do(t, environ, "provision").wants(t, exitOK).stdout
		if !strings.HasPrefix(got, "nothing to do: the broker lives inside the serving process") {
			t.Errorf("%v: %s", environ, got)
		}
	}
}
