package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// A house is the monolith under test, and what it holds.
type house struct {
	app    *fxtest.App
	db     *sql.DB
	store  app.Store
	broker broker.Broker
	*Orchestration

	ran chan string
}

func start(t *testing.T, more ...fx.Option) *house {
	t.Helper()
	h := &house{ran: make(chan string, 100)}
	h.app = fxtest.New(t,
		Monolith(filepath.Join(t.TempDir(), "monolith.db"), func(call string) { h.ran <- call }),
		fx.NopLogger,
		fx.Populate(&h.db, &h.store, &h.broker, &h.Orchestration),
		fx.Options(more...),
	)
	h.app.RequireStart()
	return h
}

func TestRunsWhatIsDue(t *testing.T) {
	t.Parallel()
	h := start(t)
	defer h.app.RequireStop()
	if err := h.Book(t.Context(), "acme", "order-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := <-h.ran; got != "acme.order-1" {
		t.Errorf("ran %s", got)
	}
}

func TestRunsOnceHoweverOftenTheEventComes(t *testing.T) {
	t.Parallel()
	h := start(t)
	defer h.app.RequireStop()
	if err := h.Book(t.Context(), "acme", "order-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	<-h.ran
	again := envelope.Reached(timer.DueTimeReached{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, CommandID: "c", DueAt: time.Now(), ReachedAt: time.Now(),
	})
	msg := message.NewMessage("again", again)
	if err := h.react(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	if len(h.ran) != 0 {
		t.Error("the same event ran the call twice")
	}
}

func TestTimerGoesWithItsServiceCall(t *testing.T) {
	t.Parallel()
	h := start(t)
	defer h.app.RequireStop()
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	if err := h.Book(t.Context(), key.TenantID, key.ServiceCallID, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	reader := h.store.(timer.Reader)
	for { // the command is on its way through the broker
		if _, err := reader.Get(t.Context(), key); err == nil {
			break
		} else if !errors.Is(err, timer.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if err := h.Cancel(t.Context(), key.TenantID, key.ServiceCallID); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Get(t.Context(), key); !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("after its service call was deleted: %v, want ErrNotFound", err)
	}
}

func TestTimerWithoutServiceCallIsADeadLetter(t *testing.T) {
	t.Parallel()
	h := start(t)
	defer h.app.RequireStop()
	dead, err := h.broker.Tail().Subscribe(t.Context(), h.broker.Routing().DeadLettersOf("acme"))
	if err != nil {
		t.Fatal(err)
	}
	body := envelope.Schedule(timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "nobody-knows"},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-1"},
		DueAt:   time.Now(),
	})
	if err := broker.NewWatermillPublisher(h.broker.Publisher()).Publish(h.broker.Routing().CommandsOf("acme"), message.NewMessage("c-1", body)); err != nil {
		t.Fatal(err)
	}
	m := <-dead
	m.Ack()
	if got := m.Metadata.Get(envelope.HeaderDeadLetterReason); got != string(timer.ReasonRefused) {
		t.Errorf("reason %q, want %q", got, timer.ReasonRefused)
	}
}

// The module provides nothing, so the host may have anything, under any type
// that the module uses inside.
func TestModuleCollidesWithNothing(t *testing.T) {
	t.Parallel()
	h := start(t,
		fx.Provide(
			func() timer.Clock { return timer.ClockFunc(time.Now) },
			func() *poller.Poller { return nil },
			func() *handlers.Handlers { return nil },
			func() *outbox.Forwarder { return nil },
			func() *message.Router { return nil },
			func() message.Publisher { return nil },
			func() message.Subscriber { return nil },
			func() context.Context { return context.Background() },
		),
		fx.Invoke(func(timer.Clock, *poller.Poller, *handlers.Handlers, *outbox.Forwarder, *message.Router, message.Publisher, message.Subscriber) {
		}),
	)
	h.app.RequireStop()
}
