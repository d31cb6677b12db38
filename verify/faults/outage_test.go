package faults_test

import (
	"os"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// outageFor is the variable that says how long the broker is unreachable, such
// as 10m; the default proves less in less time.
const outageFor = "TIMER_TEST_OUTAGE"

// What the service may grow by while its broker is unreachable.
const (
	moreGoroutines = 50
	moreHeap       = 32 << 20
)

// TestBrokerIsUnreachable has the service wait for its broker, first for one
// that swallows everything, then for one that refuses connections. It must not
// grow, and afterwards all that was due meanwhile is fired, and commands go on.
func TestBrokerIsUnreachable(t *testing.T) {
	t.Parallel()
	takesLong(t)
	long := 30 * time.Second
	if text := os.Getenv(outageFor); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	w := open(t)
	before := w.service.measure()
	began := time.Now()
	w.proxy.Drop(proxy.ToServer, proxy.ToClient)
	await(t, "half of the outage", long, func() bool { return time.Since(began) > long/2 })
	silent := w.service.measure()
	w.proxy.Refuse()
	w.proxy.Reset()
	await(t, "the end of the outage", long, func() bool { return time.Since(began) > long })
	refused := w.service.measure()
	if n := w.ackedSince(began); n > 0 {
		t.Errorf("%d commands were acked that could not arrive", n)
	}
	w.proxy.Pass()
	passed := time.Now()
	w.goesOn(100)
	t.Logf("unreachable for %v, goes on %v after it", passed.Sub(began), time.Since(passed))
	w.settle(2 * time.Minute)
	after := w.service.measure()
	t.Logf("goroutines and bytes of heap: before %v, while silent %v, while refused %v, after %v", before, silent, refused, after)
	for _, s := range []size{silent, refused, after} {
		if s.goroutines > before.goroutines+moreGoroutines || s.heap > before.heap+moreHeap {
			t.Errorf("grew from %v to %v", before, s)
		}
	}
	w.service.stop()
}
