// Package longtest marks the tests that take tens of seconds, because they start
// servers of their own, wait until a real time limit has passed, or try all there is,
// and sets the flags of packages whose tests would be slow with the defaults.
package longtest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
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

// NotShort skips a test with -short, which the run with the race detector has: there it
// takes tens of seconds, and shows no more than shorter tests of the same code do.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: takes long with the race detector; leave -short out to run it")
	}
}

// Wanted reports whether TIMER_TEST_LONG is set.
func Wanted() bool { return os.Getenv("TIMER_TEST_LONG") != "" }

// Waiting runs the tests of a package that wait for a server or a disk most of the
// time, as its TestMain. At least eight parallel tests run at once, however few cores
// there are, unless -parallel gives another number.
func Waiting(m *testing.M) int {
	if runtime.GOMAXPROCS(0) < atOnce {
		setDefault("test.parallel", strconv.Itoa(atOnce))
	}
	return m.Run()
}

const atOnce = 8

// Simulating does what [Waiting] does, for a package whose properties run whole
// services. They are checked with 20 examples instead of rapid's hundred, unless
// TIMER_TEST_LONG is set or -rapid.checks gives another number.
func Simulating(m *testing.M) int {
	if !Wanted() {
		setDefault("rapid.checks", "20")
	}
	return Waiting(m)
}

// setDefault sets a flag, unless the command line does.
func setDefault(name, value string) {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		panic("longtest: " + err.Error()) // the package of the flag is not in this test
	}
}
