package main

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// park adds parked events to a database, also while a service runs.
func park(t *testing.T, path string, seqs ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	must(t, err)
	defer db.Close()
	for _, seq := range seqs {
		if _, err := db.ExecContext(t.Context(), insertParked, seq, "event-"+seq); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryVerbPrintsJSON runs each verb of the grammar on a service with data.
func TestEveryVerbPrintsJSON(t *testing.T) {
	t.Parallel()
	server, atBroker := answering(t, "TIMER_HORIZON=100d", "TIMER_QUOTAS_FILE="+fileOf(t, "default: {live_timers: 700}"))
	db := strings.TrimPrefix(atBroker[0], "TIMER_DB_PATH=")
	do(t, atBroker, "schedule", "acme", "a", "--in", "0", "--until-fired").wants(t, exitOK)
	deadLettersOf(t, atBroker, commands(2, 200*24*time.Hour)...)
	park(t, db, "17", "18")
	dead := listDeadLetters(t, atBroker)
	if len(dead) != 2 {
		t.Fatalf("%d dead letters, want 2", len(dead))
	}
	dir := t.TempDir()
	other := "--db-path=" + filepath.Join(dir, "other.db")
	lines := [][2]string{ // the verb, and its arguments
		{"get", "acme a"},
		{"list", "acme"},
		{"stats", ""},
		{"health", ""},
		{"doctor", other},
		{"config", ""},
		{"completion", "bash"},
		{"version", ""},
		{"dlq list", ""},
		{"dlq show", dead[0]["id"].(string)},
		{"parked list", ""},
		{"parked show", "17"},
		{"quotas show", ""},
		{"clock show", ""},
		{"provision", ""},
		{"publish", fileOf(t, commands(2, 1e9)...)},
		{"schedule", "acme b --in 1h"},
		{"cancel", "acme b --wait"},
		{"dlq replay", dead[0]["id"].(string)},
		{"dlq discard", dead[1]["id"].(string)},
		{"parked retry", "17"},
		{"parked discard", "18"},
		{"pause", "acme --until 2h"},
		{"resume", "acme"},
		{"refire", "acme --since 1h --dry-run"},
		{"reschedule", "acme b --by 2h"},
		{"tenants forget", "acme --yes"},
		{"backup", filepath.Join(dir, "backup.db")},
		{"export", filepath.Join(dir, "export.jsonl") + " --db-path=" + filepath.Join(dir, "backup.db")},
		{"migrate", other},
		{"import", filepath.Join(dir, "export.jsonl") + " " + other},
		{"recover", "--dry-run " + other},
		{"serve", "until it is ready, then SIGTERM"},
		{"tail", "until -n 1"}, // as serve, it runs for ever
	}
	ran := map[string]bool{"clock advance": true} // by TestServeWithATestClock
	for _, line := range lines {
		verb, args := line[0], append(strings.Fields(line[0]+" "+line[1]), "-o", "json")
		ran[verb] = true
		stdout := ""
		switch verb {
		case "serve":
			p := startIn(t, []string{"TIMER_HTTP_ADDR=", "TIMER_NATS_PORT=0"}, "main", "serve", "-o", "json")
			for p.lines.Scan() {
				stdout += p.lines.Text() + "\n"
				if strings.Contains(p.lines.Text(), `"ready"`) {
					p.signal(t, syscall.SIGTERM)
				}
			}
			_ = p.Wait()
		case "tail":
			tailed := tailing(t, atBroker, "commands", "-n", "1", "-o", "json")
			do(t, atBroker, "schedule", "acme", "tailed", "--in", "1h").wants(t, exitOK)
			stdout = (<-tailed).wants(t, exitOK).stdout
		default:
			for verb == "backup" && decode(t, do(t, atBroker, "stats", "-o", "json").wants(t, exitOK).stdout)["outbox"] != 0. {
				// The event that was retried is on its way, and an export has no events.
			}
			got := do(t, []string{"TIMER_SERVER=" + server, atBroker[0]}, args...)
			if stdout = got.stdout; got.code != exitOK && verb != "doctor" {
				t.Errorf("%s: exit code %d: %s", verb, got.code, got.stderr)
			}
		}
		if stdout == "" {
			t.Errorf("%s prints nothing", verb)
		}
		for l := range strings.Lines(stdout) {
			if !json.Valid([]byte(l)) {
				t.Errorf("%s prints a line that is no JSON: %s", verb, l)
			}
		}
	}
	for _, leaf := range leaves() {
		if !ran[leaf] {
			t.Errorf("%s is not tested", leaf)
		}
	}
}

// leaves returns every verb of the grammar, such as "dlq list".
func leaves() (all []string) {
	p := &commandLine{cli: new(cli), flags: newSettingFlags()}
	for _, leaf := range grammar(p, nil, nil, func(int) {}).Model.Leaves(true) {
		all = append(all, leaf.Path())
	}
	return all
}
