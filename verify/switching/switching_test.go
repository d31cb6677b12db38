// Package switching_test takes one database from broker to broker. Whatever
// waits in the outbox when a service stops goes out on the broker that the next
// one is configured to use, under the same ids.
package switching_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "modernc.org/sqlite" // to see and change what the service has

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	tenant   = timer.TenantID("acme")
	timers   = 50
	interval = 200 * time.Millisecond // between polls of the service
	timeout  = time.Minute
)

var quiet = slog.New(slog.DiscardHandler)

// A side is a broker, with the service on it.
type side interface {
	name() string
	start(t *testing.T, db string) <-chan got // starts the service, and consumes its events
	publish(t *testing.T, commands ...*message.Message)
	away(t *testing.T) // takes the broker away from the service
	accepts() int      // events that the broker accepts all the same, and loses
	stop(t *testing.T) // stops the service, when the broker has accepted those, and brings the broker back
}

// A got is an event that a consumer got.
type got struct{ call, id string }

// TestWhatWaitsGoesOutOnTheNextBroker goes round all brokers.
func TestWhatWaitsGoesOutOnTheNextBroker(t *testing.T) {
	db := filepath.Join(t.TempDir(), "timers.db")
	sides := []side{newNATS(t), newKafka(t)}
	if r := newRabbitMQ(t); r != nil {
		sides = append(sides, r)
	}
	sides = append(sides, newLocal())
	sides = append(sides, sides[0])

	var waiting map[string]string // ids of events in the outbox, by service call
	for n, s := range sides {
		if !t.Run(fmt.Sprintf("%d %s", n, s.name()), func(t *testing.T) {
			expect(t, s.start(t, db), waiting)
			waiting = leave(t, s, db, n)
		}) {
			return
		}
	}
}

// expect waits for the events, all of them, and nothing else.
func expect(t *testing.T, events <-chan got, want map[string]string) {
	t.Helper()
	late := time.After(timeout)
	seen := make(map[string]bool)
	for len(seen) < len(want) {
		select {
		case e := <-events:
			if want[e.call] != e.id {
				t.Fatalf("event %s of %s, want %q", e.id, e.call, want[e.call])
			}
			seen[e.call] = true
		case <-late:
			t.Fatalf("%d of %d events came", len(seen), len(want))
		}
	}
}

// leave schedules timers, takes the broker away, makes them due in the database,
// and stops the service when they have fired. It returns what waits in the outbox.
func leave(t *testing.T, s side, db string, round int) map[string]string {
	t.Helper()
	var commands []*message.Message
	now := time.Now()
	for i := range timers {
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("round-%d-call-%d", round, i))},
			Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: fmt.Sprintf("command-%d-%d-%d", now.UnixMilli(), round, i)},
			DueAt:   now.Add(time.Hour),
		}
		m := message.NewMessage(c.CommandID, envelope.Schedule(c))
		m.Metadata = envelope.ScheduleHeaders(c)
		commands = append(commands, m)
	}
	s.publish(t, commands...)
	beside, err := sql.Open("sqlite", "file:"+db+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	const of = " FROM timer_schedules WHERE tenant_id = 'acme' AND service_call_id LIKE ?"
	pattern := fmt.Sprintf("round-%d-%%", round)
	await(t, "the timers are accepted", func() bool { return count(t, beside, "SELECT count(*)"+of, pattern) == timers })
	s.away(t)
	if _, err := beside.ExecContext(t.Context(), "UPDATE timer_schedules SET due_at = ? WHERE state = 'Scheduled'", time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	await(t, "the timers have fired", func() bool {
		return count(t, beside, "SELECT count(*)"+of+" AND state = 'Reached'", pattern) == timers
	})
	const outbox = " FROM (SELECT payload FROM timer_outbox UNION ALL SELECT payload FROM timer_outbox_deferred) WHERE payload ->> '$.aggregateId' LIKE ?"
	s.stop(t)

	rows, err := beside.QueryContext(t.Context(), "SELECT payload ->> '$.aggregateId', payload ->> '$.id'"+outbox, pattern)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	waiting := make(map[string]string)
	for rows.Next() {
		var call, id string
		if err := rows.Scan(&call, &id); err != nil {
			t.Fatal(err)
		}
		waiting[call] = id
	}
	if want := timers - s.accepts(); rows.Err() != nil || len(waiting) != want {
		t.Fatalf("%d events wait in the outbox, want %d (%v)", len(waiting), want, rows.Err())
	}
	return waiting
}

func count(t *testing.T, db *sql.DB, query, pattern string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, pattern).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// await polls until something has happened.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(timeout)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v in vain until %s", timeout, what)
		}
	}
}

// run runs a broker until the test ends, and waits until it is ready.
func run(t *testing.T, b broker.Broker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	await(t, "the broker is ready", func() bool { return b.Ready(t.Context()) == nil })
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// read turns messages into events, and acks them.
func read(t *testing.T, messages <-chan *message.Message) <-chan got {
	out := make(chan got, 10*timers)
	go func() {
		for m := range messages {
			decoded, err := envelope.Decode(m.Payload)
			event, ok := decoded.Payload.(timer.DueTimeReached)
			if err != nil || !ok {
				t.Errorf("got %s: %v", m.Payload, err)
			}
			out <- got{string(event.ServiceCallID), event.ID}
			m.Ack()
		}
	}()
	return out
}
