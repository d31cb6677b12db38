package timertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// onPostgres opens a database of the test.
func onPostgres(t *testing.T) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{Durability: postgres.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestHoursPassOnPostgres has an order that is reminded of each hour, in the transaction of the
// handler, and canceled after three hours by a handler that fails at first.
func TestHoursPassOnPostgres(t *testing.T) {
	t.Parallel()
	var timers *app.Timers
	var svc *timertest.Postgres
	var log []string
	fails := 2
	noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	at := func(call string, after time.Duration) client.Timer {
		return client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call), DueAt: noon.Add(after)}
	}
	note := func(e timer.DueTimeReached) {
		log = append(log, fmt.Sprintf("%s due %s reached %s", e.ServiceCallID, e.DueAt.Format("15:04"), e.ReachedAt.Format("15:04:05")))
	}
	handlers := func(a *app.App) {
		timers = a.Timers()
		timers.OnDueTx("remind-", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			note(e)
			after := svc.Now().Sub(noon) + time.Hour
			return timers.ScheduleTx(ctx, tx, at(fmt.Sprint("remind-", after.Hours()), after))
		}, app.OnDueOptions{})
		timers.OnDue("cancel-", func(_ context.Context, e timer.DueTimeReached) error {
			if fails--; fails >= 0 {
				return errors.New("the shop is closed")
			}
			note(e)
			return nil
		}, app.OnDueOptions{MinDelay: time.Minute, MaxDelay: time.Minute})
	}
	svc = timertest.StartPostgres(t, onPostgres(t), timertest.PostgresOptions{Now: noon, BeforeStart: handlers})
	if err := timers.Schedule(t.Context(), at("remind-1", time.Hour), at("cancel-1", 150*time.Minute)); err != nil {
		t.Fatal(err)
	}
	svc.Advance(59*time.Minute + 59*time.Second)
	if len(log) > 0 || !svc.Now().Equal(noon.Add(59*time.Minute+59*time.Second)) {
		t.Errorf("handled %q at %v", log, svc.Now())
	}
	svc.Advance(3 * time.Hour)
	want := []string{"remind-1 due 13:00 reached 13:00:00", "remind-2 due 14:00 reached 14:00:00", "cancel-1 due 14:30 reached 14:30:00", "remind-3 due 15:00 reached 15:00:00"}
	if !slices.Equal(log, want) {
		t.Errorf("handled %q, want %q", log, want)
	}
	if fails != -1 {
		t.Errorf("the handler that failed was called %d times", 2-fails)
	}
	e, err := timers.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "cancel-1"})
	if err != nil || e.State != timer.Reached || !e.ReachedAt.Equal(noon.Add(150*time.Minute)) {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestHoursPassOnPostgresWithABroker publishes a command, and gets its event two hours later.
func TestHoursPassOnPostgresWithABroker(t *testing.T) {
	t.Parallel()
	b := gochannel.New(gochannel.Options{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := broker.AwaitReady(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	events, err := b.Subscriber("shop").Subscribe(t.Context(), b.Routing().EventsOf("acme"))
	if err != nil {
		t.Fatal(err)
	}
	warnings := new(strings.Builder)
	log := slog.New(slog.NewTextHandler(warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	svc := timertest.StartPostgres(t, onPostgres(t), timertest.PostgresOptions{Broker: b, Log: log})
	began := svc.Now()
	timers := client.New(broker.NewWatermillPublisher(b.Publisher()), b.Routing(), client.Options{})
	if _, err := timers.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: began.Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	svc.Advance(119 * time.Minute)
	select {
	case m := <-events:
		t.Fatalf("early: %s", m.Payload)
	default:
	}
	svc.Advance(time.Minute)
	m := <-events
	m.Ack()
	if warnings.Len() > 0 {
		t.Errorf("it warns of a clock that the test moves:\n%s", warnings)
	}
	decoded, err := envelope.Decode(m.Payload)
	if e, ok := decoded.Payload.(timer.DueTimeReached); err != nil || !ok || e.ServiceCallID != "order-1" || !e.ReachedAt.Equal(began.Add(2*time.Hour)) {
		t.Errorf("%+v, %v", decoded, err)
	}
}
