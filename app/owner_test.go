package app_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAnotherDatabaseTakesOver starts an app on another database while one runs. A case of
// TestRecoversNothingThatIsAnothers is that this must be asked for.
func TestAnotherDatabaseTakesOver(t *testing.T) {
	onBrokers(t, func(b *bench) {
		first := b.app(b.store, app.Options{})
		ended := make(chan error, 1)
		go func() { ended <- first.Run(b.Context()) }()
		<-first.Running()
		b.schedule("call-1", time.Now())
		b.next()

		other, err := sqlite.Open(b.Context(), b.path("another.db"), sqlite.Options{Durability: sqlite.Relaxed})
		must(b, err)
		b.Cleanup(func() { _ = other.Close() })
		put(b, other, "acme", time.Now().Add(24*time.Hour), "own") // an empty database might take the place of one that was lost
		b.run(b.app(other, app.Options{Takeover: true}))
		began := time.Now()
		if err := <-ended; !errors.Is(err, timer.ErrFatal) || time.Since(began) > 10*time.Second {
			b.Errorf("the first one after %v: %v, want ErrFatal within 10s", time.Since(began), err)
		}
		b.schedule("call-2", time.Now())
		b.next()
		b.quietFor(time.Minute)
	})
}

// A moodyBroker answers claims as its function does.
type moodyBroker struct {
	broker.Broker
	answer func() error // nil: as the broker does
}

func (m *moodyBroker) Claim(ctx context.Context, role string, o broker.Owner, takeover bool) (broker.Owner, error) {
	if err := m.answer(); err != nil {
		return broker.Owner{}, err
	}
	return m.Broker.Claim(ctx, role, o, takeover)
}

// TestNothingFiresBeforeTheOwnerIsKnown has a timer due while the broker does not
// say who owns the commands, for hours. A stop does not wait for it.
func TestNothingFiresBeforeTheOwnerIsKnown(t *testing.T) {
	for name, failure := range map[string]error{"the broker is away": broker.ErrUnavailable, "the broker does not permit it": errors.New("denied")} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(b *bench) {
				var away atomic.Bool
				away.Store(true)
				b.broker = &moodyBroker{b.broker, func() error {
					if away.Load() {
						return failure
					}
					return nil
				}}
				put(b, b.store, "acme", time.Now(), "call")
				_, stop := b.serve(app.Options{})
				began := time.Now()
				if stop(); time.Since(began) > 0 {
					b.Errorf("the stop took %v", time.Since(began))
				}
				a, _ := b.serve(app.Options{}) // the start of a host does not wait for it
				b.wait(3 * time.Hour)
				if s, owner := b.stats(), b.check(a, "owner"); s.Scheduled != 1 || !owner.Red {
					b.Errorf("%+v, the check of the owner: %+v", s, owner)
				}
				away.Store(false)
				b.next()
				if owner := b.check(a, "owner"); owner.Red {
					b.Errorf("it is not known that the commands are owned: %+v", owner)
				}
				away.Store(true) // a known answer stays true
				b.schedule("call-2", time.Now())
				b.next()
			})
		})
	}
}

// A racedBroker has another database claim the commands behind the first claim.
type racedBroker struct {
	broker.Broker
	raced atomic.Bool
}

func (r *racedBroker) Claim(ctx context.Context, role string, o broker.Owner, takeover bool) (broker.Owner, error) {
	it, err := r.Broker.Claim(ctx, role, o, takeover)
	if err == nil && !r.raced.Swap(true) {
		_, err = r.Broker.Claim(ctx, role, broker.Owner{Database: "another", Name: "another.db"}, true)
	}
	return it, err
}

// TestOneOfTwoThatStartAtOnceTakesCommands although both are empty, so that each may replace a
// database that was lost: the one that claimed the commands first ends before it takes any.
func TestOneOfTwoThatStartAtOnceTakesCommands(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.broker = &racedBroker{Broker: b.broker}
		a, began := b.app(b.store, app.Options{}), time.Now()
		if err := a.Run(b.Context()); !errors.Is(err, timer.ErrFatal) || time.Since(began) > time.Second {
			b.Errorf("after %v: %v, want ErrFatal at once", time.Since(began), err)
		}
	})
}

// A silentBroker can't be asked, such as a Watermill pair: neither who owns the commands nor
// whether some wait.
type silentBroker struct{ broker.Broker }

func (silentBroker) Claim(context.Context, string, broker.Owner, bool) (broker.Owner, error) {
	return broker.Owner{}, errors.ErrUnsupported
}
func (silentBroker) CatchUp(context.Context, string) error { return errors.ErrUnsupported }

func TestABrokerThatCannotTellHoldsNothingBack(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.broker = silentBroker{b.broker}
		b.serve(app.Options{})
		b.schedule("call", time.Now())
		b.next()
	})
}

// A takenStore is one whose other instances use another broker, for a while.
type takenStore struct {
	app.Store
	until time.Time
}

func (s *takenStore) Shared() store.Shared { return s }

func (s *takenStore) Instances() int { return 1 }

func (s *takenStore) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *takenStore) Attach(context.Context, string, string, bool) (string, error) {
	if time.Now().Before(s.until) {
		return "nats://there", nil
	}
	return "", nil
}

// TestDatabaseOfAnotherBroker starts on a database that instances use with another
// broker: one that has just died may still be counted, so that is waited for.
func TestDatabaseOfAnotherBroker(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"an instance that died": 3 * time.Second, "an instance that runs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(b *bench) {
				a := b.app(&takenStore{b.store, time.Now().Add(lasts)}, app.Options{BrokerName: "nats://here"})
				if lasts < time.Minute {
					b.run(a)
					return
				}
				if err := a.Run(b.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "use nats://there, this one uses nats://here") {
					b.Errorf("Run: %v, want it refused", err)
				}
			})
		})
	}
}
