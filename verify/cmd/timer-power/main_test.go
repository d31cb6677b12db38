//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/verify/power"
)

// TestMain makes the test binary a part of a test, too.
func TestMain(m *testing.M) {
	if _, ok := part(); ok {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--cuts", "0"},
		{"--controls", "0"},
		{"--runs", "0"},
		{"--rate", "-1"},
		{"--tenants", "0"},
		{"--settle", "0s"},
		{"--layout", "disk"},
		{"-o", "yaml"},
		{"--bin", "/does/not/exist"},
		{"more"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUsage)
		}
		if stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "timer-power: ") {
			t.Errorf("%q: stdout %q, stderr %q", args, &stdout, &stderr)
		}
	}
}

func TestHelps(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "--cuts") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestSaysLoudlyThatNothingIsProven(t *testing.T) {
	t.Parallel()
	if _, err := power.Missing(); err == nil {
		t.Skip("the power can be cut here: that it says so elsewhere is seen elsewhere")
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), nil, &stdout, &stderr); code != exitUnable || !strings.Contains(stderr.String(), "NOTHING IS PROVEN") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}
