package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// TestDoctorPrintsALineForEachFinding has a database that others may read.
func TestDoctorPrintsALineForEachFinding(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "timers.db")
	environ := []string{"TIMER_DB_PATH=" + db, "TIMER_HTTP_ADDR="}
	do(t, environ, "doctor").wants(t, exitOK).prints(t, "ok       schema      sqlite "+db+" has none yet")

	do(t, environ, "migrate").wants(t, exitOK)
	must(t, os.Chmod(db, 0o644))
	do(t, environ, "doctor").wants(t, exitFailure).says(t, "timer-service: 1 bad, ").
		prints(t, "bad      files       others may read or write "+db).prints(t, " && chmod 0600 ")
	for line := range strings.Lines(do(t, environ, "doctor", "-o", "json").wants(t, exitFailure).stdout) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" || f.Text == "" || (f.Do == "") != (f.State == "ok") {
			t.Errorf("%s: %v", line, err)
		}
	}
	do(t, append(environ, "TIMER_BATCH_SIZE=many"), "doctor").wants(t, exitUsage).says(t, `batch_size="many" (TIMER_BATCH_SIZE)`)
	do(t, append(environ, "TIMER_QUOTAS_FILE=/nowhere/quotas.yaml"), "doctor").wants(t, exitUsage).says(t, "/nowhere/quotas.yaml")
}

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
