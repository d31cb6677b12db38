package faults_test

import (
	"os"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// outageFor is the variable that says how long the broker is unreachable, such
// as 10m; the default proves less in less time.
const outageFor = "TIMER_TEST_OUTAGE"

// TestBrokerIsUnreachable has the service wait for its broker, first for one
// that swallows everything, then for one that refuses connections. It must not
// grow, and afterwards all that was due meanwhile is fired, and commands go on.
func TestBrokerIsUnreachable(t *testing.T) {
	t.Parallel()
	takesLong(t)
	long := 30 * time.Second
	if text := os.Getenv(outageFor); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		harness.Must(t, err)
	}
	w := open(t, inFile(t.TempDir()))
	before := w.service.measure()
	began := time.Now()
	w.proxy.Drop(proxy.ToServer, proxy.ToClient)
	awaitTime(t, began, long/2)
	silent := w.service.measure()
	w.proxy.Refuse()
	w.proxy.Reset()
	awaitTime(t, began, long)
	refused := w.service.measure()
	w.nothingAcked(began, time.Now())
	w.proxy.Pass()
	passed := time.Now()
	w.goesOn(100)
	t.Logf("unreachable for %v, goes on %v after it", passed.Sub(began), time.Since(passed))
	w.settle(2 * time.Minute)
	grew(t, before, silent, refused, w.service.measure())
	w.service.stop()
}
