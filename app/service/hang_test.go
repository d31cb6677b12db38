package service_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

func TestStopWhileNoBrokerEverAnswered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nats", "rabbitmq"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sites[name](t)
			s.proxy.Drop(proxy.ToServer, proxy.ToClient)
			r := run(t, load(t, append(s.environ, "TIMER_DRAIN_TIMEOUT=2s")...))
			r.line("waiting")
			<-time.After(time.Second)
			began := time.Now()
			if err := r.finish(); err != nil {
				t.Errorf("Run: %v", err)
			}
			t.Logf("the stop took %v", time.Since(began))
			s.proxy.Pass()
			s.proxy.Reset()
		})
	}
}
