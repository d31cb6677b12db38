package client_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	_ "modernc.org/sqlite" // of the service

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var quiet = slog.New(slog.DiscardHandler)

// serve runs the service on a broker, until the test ends.
func serve(t *testing.T, b broker.Broker) {
	t.Helper()
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "timers.db")))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlite.Migrate(t.Context(), db))
	service, err := app.New(sqlite.New(db, sqlite.Options{}), b, quiet, app.Options{DrainTimeout: time.Second, CatchUpTimeout: time.Second})
	must(t, err)
	run(t, b.Run)
	for b.Ready(t.Context()) != nil {
		runtime.Gosched()
	}
	run(t, service.Run)
	<-service.Running()
}

// run runs something until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// useTimers is a program that has Watermill and nothing of ours but the
// client: one timer is moved, one is canceled, and many fire.
func useTimers(t *testing.T, pub message.Publisher, sub message.Subscriber, routing broker.Routing) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Second}, watermill.NopLogger{})
	must(t, err)
	due := make(chan timer.DueTimeReached, 100)
	client.OnDue(router, sub, func(_ context.Context, e timer.DueTimeReached) error {
		due <- e
		return nil
	}, client.OnDueOptions{Topic: routing.EventsOf("acme")})
	run(t, router.Run)
	<-router.Running()

	c := client.New(pub, routing, client.Options{})
	moved := client.Timer{TenantID: "acme", ServiceCallID: "moved", After: time.Hour, CorrelationID: "req-7"}
	canceled := client.Timer{TenantID: "acme", ServiceCallID: "canceled", After: 300 * time.Millisecond}
	for _, x := range []client.Timer{moved, canceled} {
		if _, err := c.Schedule(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Cancel(t.Context(), canceled.Key()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	moved.After, moved.Data = 200*time.Millisecond, []byte(`{"n": 1}`)
	if _, err := c.Schedule(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	many := []client.Timer{{TenantID: "acme", ServiceCallID: "1", After: 1}, {TenantID: "acme", ServiceCallID: "2", After: 1}, {TenantID: "acme", ServiceCallID: "last", After: 400 * time.Millisecond}}
	must(t, c.ScheduleMany(t.Context(), many...))
	got := make(map[timer.ServiceCallID]timer.DueTimeReached)
	for range 4 {
		e := <-due
		got[e.ServiceCallID] = e
	}
	if e := got["moved"]; e.CorrelationID != "req-7" || e.Data != `{"n": 1}` || e.DueAt.Before(began.Add(199*time.Millisecond)) {
		t.Errorf("the timer that was moved: %+v", e)
	}
	if _, ok := got["last"]; !ok || len(got) != 4 {
		t.Errorf("got %v, want four, and none that was canceled", got)
	}
}

// The service has our driver, the program watermill-nats.
func TestWatermillNATS(t *testing.T) {
	t.Parallel()
	running, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	must(t, err)
	running.Start()
	t.Cleanup(func() {
		running.Shutdown()
		running.WaitForShutdown()
	})
	if !running.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	serve(t, nats.New(nats.Options{URL: running.ClientURL()}, quiet))

	routing := broker.NATSRouting()
	pub, err := wmnats.NewPublisher(wmnats.PublisherConfig{URL: running.ClientURL(), JetStream: wmnats.JetStreamConfig{TrackMsgId: true}}, nil)
	must(t, err)
	t.Cleanup(func() { _ = pub.Close() })
	conn, err := natsgo.Connect(running.ClientURL(), natsgo.Timeout(time.Minute))
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := conn.JetStream(natsgo.MaxWait(time.Minute))
	must(t, err)
	// A consumer of one's own: watermill-nats deletes consumers that it made.
	if _, err := js.AddConsumer("svc", &natsgo.ConsumerConfig{
		Durable: "orders", DeliverSubject: "deliver.orders", DeliverGroup: "orders", FilterSubject: routing.EventsOf("acme"), AckPolicy: natsgo.AckExplicitPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	sub, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: running.ClientURL(), QueueGroupPrefix: "orders",
		JetStream: wmnats.JetStreamConfig{DurablePrefix: "orders", SubscribeOptions: []natsgo.SubOpt{natsgo.ManualAck(), natsgo.Bind("svc", "orders")}},
	}, nil)
	must(t, err)
	useTimers(t, pub, sub, routing)
}
