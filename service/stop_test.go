package service_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// stopLimit is how long a stop may last beside drain_timeout. The service needs five
// seconds for it: the rest is for a busy machine, since a stop that waits for a broker
// would not end at all.
const stopLimit = time.Minute

// TestStopWhileTheBrokerHangs stops a service whose broker accepts bytes and
// answers nothing, with an event in the outbox. It must end in time, without an
// error, and with the database closed.
func TestStopWhileTheBrokerHangs(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	between := proxy.New(proxy.TCP(strings.TrimPrefix(server.URL(), "nats://")))
	defer between.Close()
	address, err := between.Listen()
	if err != nil {
		t.Fatal(err)
	}
	const drain = 2 * time.Second
	path := filepath.Join(t.TempDir(), "timers.db")
	cfg := load(t, "TIMER_BROKER_URL=nats://"+address, "TIMER_DRAIN_TIMEOUT="+drain.String(), "TIMER_POLLING_INTERVAL=100", "TIMER_DB_PATH="+path)
	due(t, path, "call-1", time.Now())
	due(t, path, "call-2", time.Now().Add(time.Hour))
	r := run(t, cfg)
	r.line("ready")
	awaitReached(t, cfg, 1, 0) // it has caught up
	between.Drop(proxy.ToServer, proxy.ToClient)
	beside, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if _, err := beside.ExecContext(t.Context(), `UPDATE timer_schedules SET due_at = 1000 * unixepoch() WHERE state = 'Scheduled'`); err != nil {
		t.Fatal(err)
	}
	awaitReached(t, cfg, 2, 1) // before it notices

	began := time.Now()
	if err := r.finish(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took, limit := time.Since(began), drain+stopLimit; took > limit {
		t.Errorf("the stop took %v, want at most %v", took, limit)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatalf("the database is not closed: %v", err)
	}
	defer s.Close()
	if stats, err := s.Stats(t.Context(), ""); err != nil || stats.Outbox != 1 {
		t.Errorf("%d events in the outbox, %v, want the one that could not be published", stats.Outbox, err)
	}
}

// due stores a timer in a database, which it makes.
func due(t *testing.T, path, call string, at time.Time) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Schedule(t.Context(), time.Now(), timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: 1, CommandID: "c-" + call},
		DueAt:   at,
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitReached waits until so many timers of a database have fired, and so many
// events wait.
func awaitReached(t *testing.T, cfg config.Config, n, waiting int64) {
	t.Helper()
	reader, err := service.Reader(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		if stats, err := reader.Stats(t.Context(), ""); err == nil && stats.Reached == n && stats.Outbox == waiting {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d timers did not fire", n)
		}
	}
}
