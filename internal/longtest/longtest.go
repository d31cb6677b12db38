// Package longtest marks the tests that take tens of seconds, because they start
// servers of their own, wait until a real time limit has passed, or try all there is.
package longtest

import (
	"os"
	"testing"
)

// Skip skips a test unless TIMER_TEST_LONG is set. The reason says what takes
// long, such as "starts a RabbitMQ server".
func Skip(t testing.TB, reason string) {
	t.Helper()
	if !Wanted() {
		t.Skipf("SKIPPED: %s; set TIMER_TEST_LONG=1 to run it", reason)
	}
}

// Wanted reports whether TIMER_TEST_LONG is set.
func Wanted() bool { return os.Getenv("TIMER_TEST_LONG") != "" }
