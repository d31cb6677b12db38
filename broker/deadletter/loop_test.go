package deadletter_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// The embedded NATS server keeps its own clock, which must not begin in a
// bubble.
func TestMain(m *testing.M) {
	ats.Register()
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}

var quiet = slog.New(slog.DiscardHandler)

// brokers are those that run in a bubble.
var brokers = map[string]func(*testing.T) broker.Broker{
	"gochannel": func(*testing.T) broker.Broker { return gochannel.New(gochannel.Options{}, quiet) },
	"nats": func(t *testing.T) broker.Broker {
		server, err := nats.StartEmbedded(nats.EmbeddedOptions{DontListen: true, StoreDir: t.TempDir()}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		return nats.New(nats.Options{Server: server}, quiet)
	},
}

// running runs something until stop is called, or the test ends.
func running(t *testing.T, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// A loop is the service, and the office that replays what it refused.
type loop struct {
	*testing.T
	broker broker.Broker
	store  *sqlite.Store
	office *deadletter.Office
}

// serve runs the service with a horizon until stop is called.
func (l *loop) serve(horizon time.Duration) (stop func()) {
	a, err := app.New(l.store, l.broker, quiet, app.Options{Horizon: horizon, PollingInterval: time.Hour})
	if err != nil {
		l.Fatal(err)
	}
	stop = running(l.T, "app", a.Run)
	<-a.Running()
	synctest.Wait()
	return stop
}

// schedule publishes a command.
func (l *loop) schedule(call timer.ServiceCallID, due time.Time) {
	c := timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "command-of-" + string(call)},
		DueAt:   due,
	}
	m := message.NewMessage(c.CommandID, envelope.Schedule(c))
	if err := l.broker.Publisher().Publish(l.broker.Routing().CommandsOf("acme"), m); err != nil {
		l.Fatal(err)
	}
}

// letter waits for the one letter that there is.
func (l *loop) letter() deadletter.Letter {
	for {
		var found []deadletter.Letter
		if _, err := l.office.List(l.Context(), deadletter.Filter{Tenant: "acme"}, func(letter deadletter.Letter) error {
			found = append(found, letter)
			return nil
		}); err != nil {
			l.Fatal(err)
		}
		if len(found) == 1 {
			return found[0]
		}
		time.Sleep(time.Millisecond)
	}
}

// replay replays all letters of acme.
func (l *loop) replay() deadletter.Summary {
	sum, err := l.office.Replay(l.Context(), deadletter.Filter{Tenant: "acme"}, deadletter.Options{})
	if err != nil {
		l.Fatal(err)
	}
	return sum
}

// inBubbles runs a test once with each broker.
func inBubbles(t *testing.T, test func(l *loop)) {
	for name, open := range brokers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
				b := open(t)
				running(t, "broker", b.Run)
				for b.Ready(t.Context()) != nil {
					time.Sleep(time.Millisecond)
				}
				s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				test(&loop{t, b, s, deadletter.New(b.(deadletter.Broker))})
			})
		})
	}
}

// What is not mended fails again and again, and then stays.
func TestReplaysOfWhatIsNotMendedAreCounted(t *testing.T) {
	inBubbles(t, func(l *loop) {
		l.serve(time.Minute)
		l.schedule("order-1", time.Now().Add(10*time.Hour))
		first := l.letter()
		for replays := range deadletter.MaxReplays + 1 {
			got, now := l.letter(), time.Now()
			if got.Count != replays+1 || got.Replays != replays || got.Reason != timer.ReasonBeyondHorizon || got.Tenant != "acme" {
				l.Errorf("letter %+v, want it for time %d", got, replays+1)
			}
			if !got.FirstAt.Equal(first.LastAt) || got.LastAt.After(now) || now.Sub(got.LastAt) > time.Second {
				l.Errorf("first failed at %v, last at %v; want %v and about %v", got.FirstAt, got.LastAt, first.LastAt, now)
			}
			if !bytes.Equal(got.Body, first.Body) || replays > 0 && got.ID == first.ID {
				l.Errorf("the letter is %s with %s, want another one with %s", got.ID, got.Body, first.Body)
			}
			time.Sleep(time.Minute)
			want := deadletter.Summary{Done: 1}
			if replays == deadletter.MaxReplays {
				want = deadletter.Summary{Refused: 1}
			}
			if diff := cmp.Diff(want, l.replay()); diff != "" {
				l.Fatalf("replay %d (-want +got):\n%s", replays+1, diff)
			}
		}
		time.Sleep(time.Minute)
		if got := l.letter(); got.Replays != deadletter.MaxReplays {
			l.Errorf("what is left is %+v", got)
		}
	})
}

// What is mended fires, at its time.
func TestReplayOfWhatIsMendedFires(t *testing.T) {
	inBubbles(t, func(l *loop) {
		events, err := l.broker.Subscriber("consumer").Subscribe(l.Context(), l.broker.Routing().EventsOf("acme"))
		if err != nil {
			l.Fatal(err)
		}
		stop := l.serve(time.Minute)
		due := time.Now().Add(10 * time.Minute)
		l.schedule("order-1", due)
		l.letter()
		stop()
		l.serve(time.Hour)
		if diff := cmp.Diff(deadletter.Summary{Done: 1}, l.replay()); diff != "" {
			l.Fatalf("replay (-want +got):\n%s", diff)
		}
		msg := <-events
		msg.Ack()
		decoded, err := envelope.Decode(msg.Payload)
		if err != nil {
			l.Fatal(err)
		}
		event := decoded.Payload.(timer.DueTimeReached)
		if event.ServiceCallID != "order-1" || !event.DueAt.Equal(timer.RoundUp(due)) || event.Lateness() != 0 {
			l.Errorf("event %+v, want it at %v", event, due)
		}
		if diff := cmp.Diff(deadletter.Summary{}, l.replay()); diff != "" {
			l.Errorf("letters are left (-want +got):\n%s", diff)
		}
	})
}
