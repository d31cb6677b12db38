package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEachFailureSaysWhatToDo has what usually fails for each verb, its exit code, and
// what to do.
func TestEachFailureSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	none := filepath.Join(t.TempDir(), "none.db")
	file := fileOf(t, commands(1, 1e9)...)
	exported, empty := filepath.Join(t.TempDir(), "empty.jsonl"), []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "empty.db")}
	do(t, empty, "migrate").wants(t, exitOK)
	do(t, empty, "export", exported).wants(t, exitOK)
	tried := make(map[string]bool)
	fails := func(environ []string, code int, hint string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				do(t, environ, strings.Fields(line)...).wants(t, code).says(t, hint)
			})
			for _, leaf := range leaves() {
				tried[leaf] = tried[leaf] || strings.HasPrefix(line+" ", leaf+" ")
			}
		}
	}
	fails([]string{"TIMER_SERVER=http://127.0.0.1:1"}, exitFailure, `See whether it runs with "timer-service health --server URL"`,
		"get acme a", "list acme", "stats", "schedule acme a --in 1s", "publish "+file, "tail events", "cancel acme a", "dlq list", "dlq show x", "dlq replay --all", "dlq discard --all",
		"parked list", "parked show 1", "parked retry 1", "parked discard 1", "pause", "resume", "refire --since 1h", "reschedule acme a --in 1h", "tenants forget acme --yes", "quotas show", "clock show", "clock advance --by 1h")
	fails([]string{"TIMER_SERVER=http://127.0.0.1:1"}, exitFailure, `"timer-service doctor" looks for the cause.`, "health")
	fails([]string{"TIMER_SERVER=" + server}, exitNotFound, `lists what there is.`,
		"get acme a", "dlq show x", "dlq replay x", "dlq discard x", "parked show 1", "parked retry 1", "parked discard 1")
	fails([]string{"TIMER_DB_PATH=" + none}, exitFailure, `"timer-service doctor" looks for the cause.`,
		"get acme a", "list acme", "stats", "parked list", "parked show 1", "backup "+none+".backup", "export "+none+".jsonl")
	fails([]string{"TIMER_DB_PATH=" + none}, exitFailure, "start one, or name one with --server",
		"quotas show", "clock show", "clock advance --by 1h", "parked retry 1", "parked discard 1", "pause", "resume", "refire --since 1h", "reschedule acme a --in 1h", "tenants forget acme --yes",
		"schedule acme a --in 1s", "publish "+file, "tail events", "cancel acme a", "dlq list", "dlq show x", "dlq replay --all", "dlq discard --all")
	fails([]string{"TIMER_DB_URL=postgres://127.0.0.1:1/none", "TIMER_HTTP_ADDR="}, exitFailure, `timer-service doctor`,
		"get acme a", "list acme", "stats", "parked list", "migrate", "import "+exported)
	fails([]string{"TIMER_BROKER_URL=nats://127.0.0.1:1"}, exitFailure, `"timer-service doctor" looks for the cause.`, "provision")
	fails([]string{"TIMER_DB_PATH=/nowhere/data/timers.db", "TIMER_HTTP_ADDR=", "TIMER_NATS_PORT=0"}, exitFailure, "there is no folder /nowhere", "serve", "migrate", "recover", "import "+exported)
	fails([]string{"TIMER_DB_PATH=/nowhere/data/timers.db"}, exitFailure, "do what the lines say", "doctor")
	fails([]string{"TIMER_DB_PATH=" + none}, exitUsage, "--help", "completion tcsh", "version --wrong", "config --wrong")
	for _, leaf := range leaves() {
		if !tried[leaf] {
			t.Errorf("%s is not tested", leaf)
		}
	}
}
