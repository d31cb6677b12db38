package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
)

func TestConfigShowsValuesAndWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "timers.yaml")
	if err := os.WriteFile(file, []byte("batch_size: 7\nretention: 8d\nhorizon: 9d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TIMER_RETENTION=10d", "TIMER_HORIZON=11d", "TIMER_CONFIG=" + file}
	args := []string{"config", "--horizon", "12d"}

	want := map[string]config.Value{
		"batch_size": {Key: "batch_size", Value: "7", From: "file"},
		"retention":  {Key: "retention", Value: "10d", From: "env"},
		"horizon":    {Key: "horizon", Value: "12d", From: "flag"},
		"nats_port":  {Key: "nats_port", Value: "4222", From: "default"},
	}
	lines := strings.Split(strings.TrimSpace(do(t, environ, append(args, "-o", "json")...).wants(t, exitOK).stdout), "\n")
	if len(lines) != len(config.Settings()) {
		t.Errorf("%d lines, want one for each of %d settings", len(lines), len(config.Settings()))
	}
	for _, line := range lines {
		var got config.Value
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if w, ok := want[got.Key]; ok && got != w {
			t.Errorf("%s is %+v, want %+v", got.Key, got, w)
		}
	}

	table := do(t, environ, args...).wants(t, exitOK).stdout
	for _, w := range want {
		if !hasRow(table, w.Key, w.Value, w.From) {
			t.Errorf("no row %v in\n%s", w, table)
		}
	}
}

func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, form := range []string{formatText, formatJSON} {
		got := do(t, []string{"TIMER_BROKER_URL=nats://user:hunter2@host:4222"}, "config", "-o", form).wants(t, exitOK)
		if strings.Contains(got.stdout+got.stderr, "hunter2") || !strings.Contains(got.stdout, "nats://***@host:4222") {
			t.Errorf("%s: the password shows, or the host does not:\n%s", form, got.stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var got build
	if err := json.Unmarshal([]byte(do(t, nil, "version", "-o", "json").wants(t, exitOK).stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got != *built() || got.Version == "" || !strings.HasPrefix(got.Go, "go1.") {
		t.Errorf("version is %+v, want %+v", got, built())
	}
	text := do(t, nil, "version").wants(t, exitOK).stdout
	if !strings.HasPrefix(text, program+" "+got.Version+"\n") || !strings.Contains(text, got.Go) {
		t.Errorf("version prints %q", text)
	}
}

// hasRow reports whether a table has a row that begins with the cells.
func hasRow(table string, cells ...string) bool {
	want := strings.Join(cells, " ")
	for line := range strings.Lines(table) {
		if row := strings.Join(strings.Fields(line), " "); row == want || strings.HasPrefix(row, want+" ") {
			return true
		}
	}
	return false
}
