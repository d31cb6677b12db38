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
