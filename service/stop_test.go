package service_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
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
				awaitReached(t, cfg, 1)
				s.proxy.Drop(proxy.ToServer, proxy.ToClient)
				if reconnects {
					s.proxy.Reset()
					<-time.After(2 * time.Second)
				}
				began := time.Now()
				r.stops()
				if took, limit := time.Since(began), drain+stopLimit; took > limit {
					t.Errorf("the stop took %v, want at most %v", took, limit)
				}
				t.Logf("the stop took %v", time.Since(began))
				s.proxy.Reset()
			})
		}
	}
}

// stopLimit is how long a stop may last in addition to drain_timeout. The service needs five
// seconds for it: the rest is for a busy machine, since a stop that waits for a broker
// would not end at all.
const stopLimit = time.Minute

// due stores a timer in a database, which it makes.
func due(t *testing.T, path, call string, at time.Time) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	must(t, err)
	defer s.Close()
	if _, err := s.Schedule(t.Context(), time.Now(), timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: 1, CommandID: "c-" + call},
		DueAt:   at,
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitReached waits until a number of timers of a database have fired, and no event waits.
func awaitReached(t *testing.T, cfg config.Config, n int64) {
	t.Helper()
	reader, err := service.Reader(t.Context(), cfg)
	must(t, err)
	defer reader.Close()
	until(t, "timers that fire", func() bool {
		stats, err := reader.Stats(t.Context(), "")
		return err == nil && stats.Reached == n && stats.Outbox == 0
	})
}
