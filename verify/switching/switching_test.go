// Package switching_test takes one database from broker to broker. Whatever
// waits in the outbox when a service stops goes out on the broker that the next
// one is configured to use, under the same ids.
package switching_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "modernc.org/sqlite" // to see and change what the service has

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

const (
	tenant  = timer.TenantID("acme")
	timers  = 50
	timeout = time.Minute
	role    = "timer-service" // whose the queues are that RabbitMQ keeps events in
)

func TestMain(m *testing.M) { harness.Main(m) }

// A round is a service on one of the brokers.
type round struct {
	*testing.T
	number  int
	db      *sql.DB // of the service
	service *crash.Process
	server  crash.Server
	client  broker.Broker
	events  <-chan *message.Message
}

// TestWhatWaitsGoesOutOnTheNextBroker goes round all brokers that have a server, and comes back
// to the first.
func TestWhatWaitsGoesOutOnTheNextBroker(t *testing.T) {
	dir := t.TempDir()
	var waiting map[string]string // ids of events in the outbox, by service call
	for n, kind := range []crash.Kind{crash.NATS, crash.KafkaHere(), crash.RabbitMQ, crash.NATS} {
		t.Run(fmt.Sprintf("%d %s", n, kind), func(t *testing.T) {
			r := &round{T: t, number: n}
			r.start(kind, filepath.Join(dir, "timers.db"), filepath.Join(dir, string(kind)))
			r.expect(waiting)
			waiting = r.leave()
		})
		if t.Failed() {
			return
		}
	}
}

// start starts a broker with data in a folder, the service on a database, and a client.
func (r *round) start(kind crash.Kind, path, dir string) {
	r.Helper()
	harness.Must(r, os.MkdirAll(dir, 0o700))
	port := harness.Port(r)
	var err error
	r.server, err = crash.StartServer(r.Context(), kind, dir, port)
	harness.Need(r, err)
	r.Cleanup(func() { _ = r.server.Kill() }) // fails only if it has ended
	settings := []string{
		"TIMER_BROKER=" + kind.Setting(), "TIMER_BROKER_URL=" + kind.URL(port), "TIMER_DB_PATH=" + path,
		"TIMER_DRAIN_TIMEOUT=100", "TIMER_POLLING_INTERVAL=200", "TIMER_HTTP_ADDR=",
	}
	r.service = harness.Serve(r, dir, settings...)
	r.db, err = sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	harness.Must(r, err)
	r.Cleanup(func() { r.db.Close() })

	cfg, err := config.Load(nil, settings, "")
	harness.Must(r, err)
	r.client, _, err = service.Client(cfg, slog.New(slog.DiscardHandler))
	harness.Must(r, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.client.Run(ctx) }()
	r.Cleanup(func() { cancel(); <-ended })
	harness.Until(r, "the broker to be ready", timeout, func() bool { return r.client.Ready(ctx) == nil })
	r.events, err = r.client.Subscriber(role).Subscribe(ctx, r.client.Routing().EventsOf(tenant))
	harness.Must(r, err)
}

// expect waits for the events, all of them and no others.
func (r *round) expect(want map[string]string) {
	r.Helper()
	late := time.After(timeout)
	seen := make(map[string]bool)
	for len(seen) < len(want) {
		select {
		case m := <-r.events:
			decoded, err := envelope.Decode(m.Payload)
			e, ok := decoded.Payload.(timer.DueTimeReached)
			if err != nil || !ok || want[string(e.ServiceCallID)] != e.ID {
				r.Fatalf("event %s of %s, want %q (%v)", e.ID, e.ServiceCallID, want[string(e.ServiceCallID)], err)
			}
			seen[string(e.ServiceCallID)] = true
			m.Ack()
		case <-late:
			r.Fatalf("%d of %d events came", len(seen), len(want))
		}
	}
}

// leave schedules timers, takes the broker away, makes them due in the database,
// and stops the service when they have fired. It returns what waits in the outbox.
func (r *round) leave() map[string]string {
	r.Helper()
	var commands []*message.Message
	now := time.Now()
	for i := range timers {
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("round-%d-call-%d", r.number, i))},
			Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: fmt.Sprintf("command-%d-%d", r.number, i)},
			DueAt:   now.Add(time.Hour),
		}
		m := message.NewMessage(c.CommandID, envelope.Schedule(c))
		m.Metadata = envelope.CommandHeaders(c)
		commands = append(commands, m)
	}
	harness.Must(r, broker.NewWatermillPublisher(r.client.Publisher()).Publish(r.client.Routing().CommandsOf(tenant), commands...))
	count := func(where string) (n int) {
		harness.Must(r, r.db.QueryRowContext(r.Context(), "SELECT count(*) FROM timer_schedules WHERE service_call_id LIKE ? AND "+where, r.pattern()).Scan(&n))
		return n
	}
	harness.Until(r, "the timers to be accepted", timeout, func() bool { return count("true") == timers })
	harness.Must(r, syscall.Kill(r.server.PID(), syscall.SIGSTOP)) // timers fire until the service knows
	_, err := r.db.ExecContext(r.Context(), "UPDATE timer_schedules SET due_at = ? WHERE state = 'Scheduled'", time.Now().UnixMilli())
	harness.Must(r, err)
	harness.Until(r, "the timers to fire", timeout, func() bool { return count("state = 'Reached'") == timers })
	harness.Must(r, r.server.Kill())
	harness.Must(r, r.service.Stop(timeout))

	rows, err := r.db.QueryContext(r.Context(), `SELECT payload ->> '$.aggregateId', payload ->> '$.id'
  FROM (SELECT payload FROM timer_outbox UNION ALL SELECT payload FROM timer_outbox_deferred) WHERE payload ->> '$.aggregateId' LIKE ?`, r.pattern())
	harness.Must(r, err)
	defer rows.Close()
	waiting := make(map[string]string)
	for rows.Next() {
		var call, id string
		harness.Must(r, rows.Scan(&call, &id))
		waiting[call] = id
	}
	if rows.Err() != nil || len(waiting) != timers {
		r.Fatalf("%d events wait in the outbox, want %d (%v)", len(waiting), timers, rows.Err())
	}
	return waiting
}

// pattern is that of the timers of the round.
func (r *round) pattern() string { return fmt.Sprintf("round-%d-%%", r.number) }
