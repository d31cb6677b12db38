package faults_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// TestHalfOpenConnection drops bytes without closing the connection, between the service
// and the broker, in one direction or both.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	takesLong(t)
	for name, dropped := range map[string][]proxy.Direction{
		"both directions": {proxy.ToServer, proxy.ToClient},
		"to the broker":   {proxy.ToServer},
		"to the service":  {proxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			began := time.Now()
			w.proxy.Drop(dropped...)
			noticed := w.service.says("not connected", began, 30*time.Second).at.Sub(began)
			w.proxy.Pass()
			again := w.service.says("msg=connected", began, 30*time.Second).at.Sub(began)
			t.Logf("noticed after %v, connected again after %v", noticed, again)
			if noticed > 15*time.Second+grace {
				t.Errorf("noticed after %v, want 15 s at most", noticed)
			}
			w.goesOn(100)
			w.settle(90 * time.Second) // what was on the dead connection comes again after the ack wait of 30 s
		})
	}
}

// grace is what a busy machine may take on top of a limit. Without the watch for
// the file, and without pings, it takes more than that and the limit together.
const grace = 5 * time.Second

func TestBrokerRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	takesLong(t)
	w := open(t)
	for range 3 {
		w.broker.Shutdown()
		w.startBroker()
		w.goesOn(50)
	}
	w.settle(90 * time.Second)
}
