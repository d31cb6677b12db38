package main

import (
	"bytes"
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

func TestFailsWithAReportIfTheServiceIsBroken(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--bin", "/bin/false", "--seed", "7"}, &stdout, &stderr); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, want := range []string{"6 violations", "died, the first of 6", "exit status 1"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report does not say %q: %s", want, &stdout)
		}
	}
	if !strings.HasPrefix(stderr.String(), "seed 7\n") {
		t.Errorf("stderr is %q", &stderr)
	}
}
