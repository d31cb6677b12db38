// Package faults_test harms what the service stands on, from outside: the
// network, the broker, the disk, the database file. The service runs as it
// does in production, as a process of its own. Whether it kept its promises is
// judged by what a client of the broker observed.
package faults_test

import (
	"flag"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait most of the time
		panic(err)
	}
	harness.Main(m)
}

// grace is what a busy machine may take on top of a limit. Without the watch for
// the file it takes more than that and the limit together.
const grace = 5 * time.Second

// takesLong skips the test if time is short.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED, NOTHING IS PROVEN: it takes half a minute or longer")
	}
}

// awaitTime waits until so much time has gone by since a time.
func awaitTime(t *testing.T, since time.Time, d time.Duration) {
	t.Helper()
	harness.Until(t, "the time to go by", d+time.Minute, func() bool { return time.Since(since) > d })
}
