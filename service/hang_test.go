package service_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// TestStopWhileAnyBrokerHangs stops a service whose broker accepts connections and
// bytes, and answers nothing: on the connections that it had, or on new ones.
func TestStopWhileAnyBrokerHangs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nats", "rabbitmq"} {
		for _, reconnects := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", new connections"}[reconnects], func(t *testing.T) {
				t.Parallel()
				s := sites[name](t)
				const drain = 2 * time.Second
				path := filepath.Join(t.TempDir(), "timers.db")
				cfg := load(t, append(s.environ, "TIMER_DRAIN_TIMEOUT="+drain.String(), "TIMER_DB_PATH="+path)...)
				due(t, path, "call-1", time.Now())
				r := run(t, cfg)
				r.line("ready")
				awaitReached(t, cfg, 1, 0)
				s.proxy.Drop(proxy.ToServer, proxy.ToClient)
				if reconnects {
					s.proxy.Reset()
					<-time.After(2 * time.Second)
				}
				began := time.Now()
				if err := r.finish(); err != nil {
					t.Errorf("Run: %v", err)
				}
				if took, limit := time.Since(began), drain+stopLimit; took > limit {
					t.Errorf("the stop took %v, want at most %v", took, limit)
				}
				t.Logf("the stop took %v", time.Since(began))
				s.proxy.Reset()
			})
		}
	}
}

// TestStopWhileNoBrokerEverAnswered stops a service that has tried in vain to connect.
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
