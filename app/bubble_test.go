package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

var quiet = slog.New(slog.DiscardHandler)

// A bench is what an app needs, in a bubble: a real database, a real broker, and a
// clock that does not wait.
type bench struct {
	t      *testing.T
	store  *sqlite.Store
	broker broker.Broker
	events <-chan *message.Message
	sent   int
}

// brokers are the brokers that run in a bubble.
var brokers = map[string][]timertest.Option{"gochannel": nil, "nats": {timertest.NATS()}}

// inBubbles runs a test once with each broker.
func inBubbles(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	for name, options := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "nats" {
				longtest.Skip(t, "a NATS server works for each second of a bubble")
			}
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, broker: timertest.Start(t, append(options, timertest.Stopped())...).Broker()}
				b.store = unsynced(t, filepath.Join(t.TempDir(), "timers.db"))
				t.Cleanup(func() { closeUnsynced(t, b.store) })
				var err error
				if b.events, err = b.broker.Subscriber("consumer").Subscribe(t.Context(), b.broker.Routing().EventsOf("acme")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				test(t, b)
			})
		})
	}
}

// running runs something until stop is called, or the bubble ends.
func running(t *testing.T, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// serve runs the app on a store, until the bubble ends.
func (b *bench) serve(s app.Store, opt app.Options) *app.App {
	a, _ := b.serveUntil(s, opt)
	return a
}

// serveUntil runs the app on a store, until stop is called or the bubble ends.
func (b *bench) serveUntil(s app.Store, opt app.Options) (_ *app.App, stop func()) {
	a, err := app.New(s, b.broker, quiet, opt)
	if err != nil {
		b.t.Fatal(err)
	}
	stop = running(b.t, "app", a.Run)
	<-a.Running()
	time.Sleep(100 * time.Millisecond) // until it has caught up
	synctest.Wait()
	return a, stop
}

// schedule publishes a command, and returns when the broker has it.
func (b *bench) schedule(call string, due time.Time) {
	b.t.Helper()
	b.sent++
	c := timer.ScheduleTimer{
		Key:     keyOf(call),
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprint("command-", b.sent)},
		DueAt:   due,
	}
	b.publish(c.CommandID, envelope.Schedule(c))
}

func (b *bench) publish(id string, body []byte) {
	b.t.Helper()
	m := message.NewMessage(id, body)
	if err := broker.NewWatermillPublisher(b.broker.Publisher()).Publish(b.broker.Routing().CommandsOf("acme"), m); err != nil {
		b.t.Fatal(err)
	}
}

// next waits for an event and acks it.
func (b *bench) next() timer.DueTimeReached {
	b.t.Helper()
	msg := <-b.events
	msg.Ack()
	m, err := envelope.Decode(msg.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	return m.Payload.(timer.DueTimeReached)
}

// quietFor checks that no event comes for a while.
func (b *bench) quietFor(d time.Duration) {
	b.t.Helper()
	select {
	case msg := <-b.events:
		b.t.Errorf("unexpected event: %s", msg.Payload)
	case <-time.After(d):
	}
}

func TestHoursOfTimersWithoutLateness(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		b.serve(b.store, app.Options{PollingInterval: time.Hour})
		began := time.Now()
		dues := []time.Duration{0, time.Millisecond, 1500 * time.Millisecond, time.Second, time.Minute, time.Hour, 10 * time.Hour, 20 * time.Hour}
		for _, after := range dues {
			b.schedule(fmt.Sprint("call-", after.Milliseconds()), began.Add(after))
		}
		for range dues {
			e := b.next()
			if late := e.Lateness(); late != 0 {
				t.Errorf("%s fired %v late", e.Key, late)
			}
			if !time.Now().Equal(e.DueAt) {
				t.Errorf("%s due at %v arrived at %v", e.Key, e.DueAt, time.Now())
			}
		}
		b.quietFor(time.Hour)
	})
}

func TestCleanStopDeliversNothingTwice(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		began := time.Now()
		delivered := make(map[string]int)
		for round := range 5 {
			ctx, stop := context.WithCancel(t.Context())
			a, err := app.New(b.store, b.broker, quiet, app.Options{PollingInterval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			<-a.Running()
			synctest.Wait()
			for i := range 100 {
				b.schedule(fmt.Sprintf("call-%d-%d", round, i), began.Add(time.Duration(round)*time.Minute))
			}
			go func() { // in the middle of things
				time.Sleep(time.Duration(round) * time.Minute)
				stop()
			}()
			go func() { <-ctx.Done() }()
			for done := false; !done; {
				select {
				case msg := <-b.events:
					delivered[msg.UUID]++
					msg.Ack()
				case err := <-ended:
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					done = true
				}
			}
		}
		b.serve(b.store, app.Options{PollingInterval: time.Hour})
		for quiet := false; !quiet; {
			select {
			case msg := <-b.events:
				delivered[msg.UUID]++
				msg.Ack()
			case <-time.After(2 * time.Hour):
				quiet = true
			}
		}
		for id, n := range delivered {
			if n != 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		if len(delivered) != 500 && b.broker.Routing() == nats.DefaultRouting() {
			t.Errorf("%d of 500 events arrived", len(delivered))
		}
	})
}
