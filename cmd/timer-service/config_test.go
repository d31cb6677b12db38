package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/config"
)

func TestConfigShowsValuesAndWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "batch_size: 7", "retention: 8d", "horizon: 9d")
	environ := []string{"TIMER_RETENTION=10d", "TIMER_HORIZON=11d", "TIMER_CONFIG=" + file, "TIMER_BROKER_URL=nats://user:hunter2@host:4222"}
	quotas := fileOf(t, "default: {live_timers: 5}", "tenants: {acme: {accept_rate: 7/s}}")
	args := []string{"config", "--horizon", "12d", "--quotas-file", quotas}
	shown := make(map[string]config.Value)
	for line := range strings.Lines(do(t, environ, append(args, "-o", "json")...).wants(t, exitOK).stdout) {
		var v config.Value
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		shown[v.Key] = v
	}
	table := do(t, environ, args...).wants(t, exitOK).stdout
	for _, want := range []config.Value{
		{Key: "batch_size", Value: "7", From: "file"},
		{Key: "retention", Value: "10d", From: "env"},
		{Key: "horizon", Value: "12d", From: "flag"},
		{Key: "nats_port", Value: "4222", From: "default"},
		{Key: "broker_url", Value: "nats://***@host:4222", From: "env"},
		{Key: "quotas.default", Value: "live_timers: 5", From: "quotas_file"},
		{Key: "quotas.tenants.acme", Value: "live_timers: 5, accept_rate: 7/s", From: "quotas_file"},
	} {
		if got := shown[want.Key]; got != want || !hasRow(table, want.Key, want.Value, want.From) {
			t.Errorf("%s is %+v, want %+v, and a row in\n%s", want.Key, got, want, table)
		}
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

// TestWrongFilesAreMistakesInTheConfiguration, for which systemd does not restart the service.
func TestWrongFilesAreMistakesInTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flag string
		text []string
		says []string // with the line behind the name of the file
	}{
		{"--quotas-file", []string{"default: {live_timer: 5}", "tenants: {acme: {accept_rate: 7}}"}, []string{"default.live_timer (FILE:1)", `tenants.acme.accept_rate="7" (FILE:2)`}},
		{"--http-tenant-tokens-file", []string{"acme: hunter2", `"a b": 4f0c4fd2a1be6f5c35a7f0a0c7a6c1d2`}, []string{"acme (FILE:1)", "a b (FILE:2)"}},
	} {
		file := fileOf(t, tt.text...)
		for _, verb := range []string{"config", "serve"} {
			args := []string{verb, "--db-path", filepath.Join(t.TempDir(), "timers.db"), tt.flag}
			environ := []string{"TIMER_HTTP_TOKEN=0123456789abcdef"}
			got := do(t, environ, append(args, file)...).wants(t, exitUsage).says(t, "2 mistakes in the configuration")
			for _, want := range tt.says {
				got.says(t, strings.Replace(want, "FILE", file, 1))
			}
			if strings.Contains(got.stderr, "hunter2") {
				t.Errorf("%s shows the token: %s", verb, got.stderr)
			}
			do(t, environ, append(args, file+".not")...).wants(t, exitUsage).says(t, file+".not")
		}
	}
}

// TestAFolderOfBackupsThatCantBeUsedIsAMistake at the start, not after two intervals.
func TestAFolderOfBackupsThatCantBeUsedIsAMistake(t *testing.T) {
	t.Parallel()
	for dir, says := range map[string]string{filepath.Join(t.TempDir(), "none"): "mkdir -m 700 ", fileOf(t, "text"): "may not write there"} {
		for _, verb := range []string{"config", "serve"} {
			do(t, nil, verb, "--db-path", filepath.Join(t.TempDir(), "timers.db"), "--backup-every", "1h", "--backup-dir", dir).
				wants(t, exitUsage).says(t, "backup_dir", dir, says)
		}
	}
}

// TestComposeFile reads compose.yml as its users do: each variant of the service has settings
// that it takes, keeps its data in a volume, and shows its HTTP on this machine, with a token.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compose.yml")
	must(t, err)
	var file struct {
		Services map[string]struct {
			Profiles    []string
			DependsOn   []string `yaml:"depends_on"`
			Environment map[string]string
			Ports       []string
		}
		Volumes map[string]any
	}
	must(t, yaml.Unmarshal(text, &file))
	for name, servers := range map[string][]string{"embedded": nil, "nats": {"nats"}, "kafka": {"kafka"}, "rabbitmq": {"rabbitmq"}, "scale": {"nats", "postgres"}} {
		variant := file.Services["timer-"+name]
		environ := []string{"TIMER_DB_PATH=/data/timer-service/timers.db"} // of the image
		for key, value := range variant.Environment {
			environ = append(environ, key+"="+value)
		}
		cfg, err := config.Load(nil, environ, "") // which refuses a variable that is misspelled
		if err != nil || cfg.Embedded() != (servers == nil) || cfg.DBURL.Empty() == (name == "scale") || !slices.Equal(variant.DependsOn, servers) || !slices.Equal(variant.Profiles, []string{name}) {
			t.Errorf("%s: %+v: %v", name, variant, err)
		}
		published := slices.ContainsFunc(variant.Ports, func(p string) bool { return strings.HasPrefix(p, "127.0.0.1:8080") && strings.HasSuffix(p, ":8080") })
		if cfg.HTTPAddr != "0.0.0.0:8080" || cfg.HTTPToken.Empty() || !published {
			t.Errorf("%s: its HTTP is on %q, with the ports %q", name, cfg.HTTPAddr, variant.Ports)
		}
		for _, server := range servers {
			if _, is := file.Volumes[server]; !is || !slices.Contains(file.Services[server].Profiles, name) {
				t.Errorf("%s: %s has no volume, or is not started", name, server)
			}
		}
	}
}
