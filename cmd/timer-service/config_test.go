package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
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

func TestConfigShowsQuotas(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(file, []byte("default: {live_timers: 5}\ntenants: {acme: {accept_rate: 7/s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := do(t, nil, "config", "--quotas-file", file).wants(t, exitOK).stdout
	if !hasRow(table, "quotas.default", "live_timers: 5", "quotas_file") || !hasRow(table, "quotas.tenants.acme", "live_timers: 5, accept_rate: 7/s", "quotas_file") {
		t.Errorf("no quotas in\n%s", table)
	}
}

func TestWrongQuotasAreAMistakeInTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(file, []byte("default: {live_timer: 5}\ntenants: {acme: {accept_rate: 7}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"config", "serve"} {
		got := do(t, nil, verb, "--quotas-file", file, "--db-path", filepath.Join(t.TempDir(), "timers.db")).wants(t, exitUsage)
		for _, want := range []string{"2 mistakes in the configuration", "default.live_timer (" + file + ":1)", "tenants.acme.accept_rate=\"7\" (" + file + ":2)"} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("%s does not say %s:\n%s", verb, want, got.stderr)
			}
		}
		if absent := do(t, nil, verb, "--quotas-file", file+".not").wants(t, exitUsage); !strings.Contains(absent.stderr, file+".not") {
			t.Errorf("%s does not name the file: %s", verb, absent.stderr)
		}
	}
}

// TestWrongTenantTokensAreAMistakeInTheConfiguration, for which systemd does not restart
// the service.
func TestWrongTenantTokensAreAMistakeInTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("acme: hunter2\n\"a b\": 4f0c4fd2a1be6f5c35a7f0a0c7a6c1d2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"config", "serve"} {
		args := []string{verb, "--http-token", "0123456789abcdef", "--db-path", filepath.Join(t.TempDir(), "timers.db"), "--http-tenant-tokens-file"}
		got := do(t, nil, append(args, file)...).wants(t, exitUsage)
		for _, want := range []string{"2 mistakes in the configuration", "acme (" + file + ":1)", "a b (" + file + ":2)"} {
			if !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "hunter2") {
				t.Errorf("%s does not say %s, or says the token:\n%s", verb, want, got.stderr)
			}
		}
		do(t, nil, append(args, file+".not")...).wants(t, exitUsage).says(t, file+".not")
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
	if !reflect.DeepEqual(got, *built()) || got.Version == "" || !strings.HasPrefix(got.Go, "go1.") {
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

func TestVariablesOfKubernetesAreOneLineAtDebug(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_SERVICE_HOST=10.0.0.1", "TIMER_SERVICE_PORT=4222", "TIMER_PORT=tcp://10.0.0.1:4222"}
	if r := do(t, environ, "config").wants(t, exitOK); r.stderr != "" {
		t.Errorf("it says %s", r.stderr)
	}
	r := do(t, append(environ, "TIMER_LOG_LEVEL=debug"), "config").wants(t, exitOK)
	if n := strings.Count(r.stderr, "\n"); n != 1 || !strings.Contains(r.stderr, "TIMER_PORT") || !strings.Contains(r.stderr, "TIMER_SERVICE_HOST") {
		t.Errorf("it says %s", r.stderr)
	}
	do(t, append(environ, "TIMER_SERVIS_PORT=4222"), "config").wants(t, exitUsage)
}
