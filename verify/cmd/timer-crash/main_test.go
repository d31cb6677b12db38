package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// TestMain makes the test binary the broker, too.
func TestMain(m *testing.M) {
	if crash.IsBroker() {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--kills", "0"},
		{"--rate", "-1"},
		{"--tenants", "0"},
		{"--settle", "0s"},
		{"--mode", "freeze"},
		{"--mode", "step", "--step", "nowhere"},
		{"--step", "acked"},
		{"--instances", "0"},
		{"--instances", "2"},
		{"--instances", "2", "--store", "postgres", "--mode", "embedded"},
		{"--instances", "2", "--store", "postgres", "--mode", "step"},
		{"--mode", "store"},
		{"--mode", "broker", "--broker", "kafka"},
		{"--mode", "wipe", "--broker", "rabbitmq"},
		{"--mode", "empty-broker", "--broker", "rabbitmq"},
		{"--store", "stone"},
		{"--db-url", "postgres://localhost/"},
		{"-o", "yaml"},
		{"--bin", "/does/not/exist"},
		{"more"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUsage)
		}
		if stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "timer-crash: ") {
			t.Errorf("%q: stdout %q, stderr %q", args, &stdout, &stderr)
		}
	}
}

func TestHelps(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "--kills") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestFailsWithAReportIfTheServiceIsBroken(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--bin", "/bin/false", "--dir", t.TempDir(), "--seed", "7", "-o", "json"}, &stdout, &stderr)
	if code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if !strings.HasPrefix(stderr.String(), "seed 7\n") {
		t.Errorf("stderr is %q", &stderr)
	}
	var report crash.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	if report.Seed != 7 || report.Violations() == 0 || !strings.Contains(report.Error, "exit status 1") {
		t.Errorf("the report is %s", &stdout)
	}
}
