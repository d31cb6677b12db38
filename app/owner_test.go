package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// ends runs an app until it ends by itself, and returns its error.
func ends(t *testing.T, s app.Store, b broker.Broker, opt app.Options) error {
	t.Helper()
	a, err := app.New(s, b, quiet, opt)
	if err != nil {
		t.Fatal(err)
	}
	return a.Run(t.Context())
}

// another opens one more database.
func another(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "another.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestAnotherDatabaseTakesNoCommands starts an app on another database beside one
// that runs, and then has it take over.
func TestAnotherDatabaseTakesNoCommands(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		first, err := app.New(b.store, b.broker, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- first.Run(t.Context()) }()
		<-first.Running()
		b.schedule("call-1", time.Now())
		b.next()

		other := another(t)
		put(t, other, "acme", time.Now().Add(24*time.Hour), "own") // an empty database might take the place of one that was lost
		if err := ends(t, other, b.broker, app.Options{BrokerName: "nats://here"}); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "timer.commands on nats://here") {
			t.Errorf("the other one: %v, want ErrFatal", err)
		}
		if stats, err := other.Stats(t.Context(), ""); err != nil || stats.Counts != (timer.Counts{Scheduled: 1}) {
			t.Errorf("the other one took commands: %+v, %v", stats, err)
		}

		taker, _ := b.serveUntil(other, app.Options{Takeover: true})
		<-taker.Running()
		began := time.Now()
		if err := <-ended; !errors.Is(err, timer.ErrFatal) {
			t.Errorf("the first one: %v, want ErrFatal", err)
		}
		if took := time.Since(began); took > 10*time.Second { // of the bubble
			t.Errorf("the first one ended after %v, want 10s at most", took)
		}
		b.schedule("call-2", time.Now())
		b.next()
		b.quietFor(time.Minute)
	})
}

// A moody broker answers claims as its function does.
type moody struct {
	broker.Broker
	answer func() error // nil: as the broker does
}

func (m *moody) Claim(ctx context.Context, role string, o broker.Owner, takeover bool) (broker.Owner, error) {
	if err := m.answer(); err != nil {
		return broker.Owner{}, err
	}
	return m.Broker.Claim(ctx, role, o, takeover)
}

// TestNothingFiresBeforeTheOwnerIsKnown has a timer due while the broker does not
// say who owns the commands, for hours.
func TestNothingFiresBeforeTheOwnerIsKnown(t *testing.T) {
	for name, failure := range map[string]error{"the broker is away": broker.ErrUnavailable, "the broker does not permit it": errors.New("denied")} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, b *bench) {
				var away atomic.Bool
				away.Store(true)
				m := &moody{b.broker, func() error {
					if away.Load() {
						return failure
					}
					return nil
				}}
				put(t, b.store, "acme", time.Now(), "call")
				var owned atomic.Bool
				a, err := app.New(b.store, m, quiet, app.Options{Owned: func() { owned.Store(true) }})
				if err != nil {
					t.Fatal(err)
				}
				stop := running(t, "app", a.Run)
				<-a.Running() // the start of a host does not wait for it
				time.Sleep(3 * time.Hour)
				if e, err := b.store.Get(t.Context(), keyOf("call")); err != nil || e.State != timer.Scheduled || owned.Load() {
					t.Errorf("the timer is %v, %v, the commands are owned: %t", e, err, owned.Load())
				}
				away.Store(false)
				b.next()
				if !owned.Load() {
					t.Error("it is not known that the commands are owned")
				}
				away.Store(true) // what is known stays true
				b.schedule("call-2", time.Now())
				b.next()
				stop()
			})
		})
	}
}

// TestStopBeforeTheOwnerIsKnown stops an app that waits for the broker, at once.
func TestStopBeforeTheOwnerIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := another(t)
		a, err := app.New(s, &moody{newSimBroker(1, nil), func() error { return broker.ErrUnavailable }}, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, "app", a.Run)
		<-a.Running()
		began := time.Now()
		stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop took %v", took)
		}
	})
}

// TestBrokerThatKeepsNoOwner is one that can't be asked, such as a Watermill pair.
func TestBrokerThatKeepsNoOwner(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		b.broker = &moody{b.broker, func() error { return errors.ErrUnsupported }}
		b.serve(b.store, app.Options{})
		b.schedule("call", time.Now())
		b.next()
	})
}

// A taken store is one whose other instances use another broker, for a while.
type taken struct {
	app.Store
	until time.Time
}

func (s *taken) Shared() store.Shared { return s }

func (s *taken) Instances() int { return 1 }

func (s *taken) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *taken) Attach(context.Context, string, string, bool) (string, error) {
	if time.Now().Before(s.until) {
		return "nats://there", nil
	}
	return "", nil
}

// TestDatabaseOfAnotherBroker starts on a database that instances use with another
// broker: one that has just died may still be counted, so that is waited for.
func TestDatabaseOfAnotherBroker(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lasts   time.Duration
		refused bool
	}{{"an instance that died", 3 * time.Second, false}, {"an instance that runs", time.Hour, true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, b *bench) {
				s := &taken{b.store, time.Now().Add(tt.lasts)}
				a, err := app.New(s, b.broker, quiet, app.Options{BrokerName: "nats://here"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- a.Run(ctx) }()
				select {
				case err := <-ended:
					if !tt.refused || !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "use nats://there, this one uses nats://here") {
						t.Errorf("Run: %v, refused is to be %t", err, tt.refused)
					}
				case <-a.Running():
					if tt.refused {
						t.Error("it runs")
					}
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
