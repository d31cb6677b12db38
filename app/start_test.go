package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMiddlewareThatFailsHoldsUpNoStart has a host's middleware fail for the messages of a tenant
// while a start reads one of them, which is handled when the middleware works.
func TestMiddlewareThatFailsHoldsUpNoStart(t *testing.T) {
	for name, panics := range map[string]bool{"an error": false, "a panic": true} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				var broken atomic.Bool
				broken.Store(true)
				fails := failsFor("acme", broken.Load)
				opt := app.Options{Middleware: []message.HandlerMiddleware{func(next message.HandlerFunc) message.HandlerFunc {
					return func(m *message.Message) ([]*message.Message, error) {
						if panics && broken.Load() && strings.Contains(string(m.Payload), `"acme"`) {
							panic("a key is missing")
						}
						return fails(next)(m)
					}
				}}}
				b.on(mine, opt)()
				due := time.Now().Add(10 * time.Minute)
				b.schedule("first", due)
				b.send(timer.ScheduleTimer{Key: keyOfOther("second"), DueAt: due})
				b.on(mine, opt)
				b.fires(15*time.Minute, "second")
				broken.Store(false)
				b.fires(15*time.Minute, "first")
			})
		})
	}
}

// waitsForAQuota schedules two timers of a tenant that may have one. The second waits, due in an hour.
func waitsForAQuota(b *server, second string) {
	due := time.Now().Add(time.Hour)
	for _, call := range []string{"first", second} {
		b.schedule(call, due)
		b.rest()
	}
}

// TestASelectionThatWaitedIsNoted has a cancellation by a prefix wait in the inbox, since its handling
// failed, behind a schedule that waits for a quota and that it cancels.
func TestASelectionThatWaitedIsNoted(t *testing.T) {
	onServer(t, func(b *server) {
		var broken atomic.Bool
		fails := func(next message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				if broken.Load() && strings.Contains(string(m.Payload), `"CancelTimers"`) {
					return nil, errors.New("a key is missing")
				}
				return next(m)
			}
		}
		opt := app.Options{Quotas: limiter(b.bench, "acme", quota.Limits{Live: 1}), Middleware: []message.HandlerMiddleware{fails}}
		stop := b.on(mine, opt)
		waitsForAQuota(b, "order-1")
		broken.Store(true)
		b.cancelMany(timer.Selection{Prefix: "order-"})
		b.wait(time.Minute)
		broken.Store(false)
		b.wait(10 * time.Minute)
		stop()
		opt.Quotas = nil
		b.on(mine, opt)
		b.fires(2*time.Hour, "first")
	})
}

// TestASelectionThatAStartReadsIsNoted has a start read a cancellation by a prefix, whose body only the
// middleware of a host can open, while a schedule that it cancels waits for a quota.
func TestASelectionThatAStartReadsIsNoted(t *testing.T) {
	onServer(t, func(b *server) {
		opens := func(next message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				m.Payload = bytes.TrimPrefix(m.Payload, []byte("sealed"))
				return next(m)
			}
		}
		opt := app.Options{Quotas: limiter(b.bench, "acme", quota.Limits{Live: 1}), Middleware: []message.HandlerMiddleware{opens}}
		stop := b.on(mine, opt)
		waitsForAQuota(b, "order-1")
		stop()
		c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{Prefix: "order-"}}
		b.publish("acme", c.CommandID, append([]byte("sealed"), envelope.CancelMany(c)...))
		stop = b.on(mine, opt)
		b.wait(10 * time.Minute)
		stop()
		opt.Quotas = nil
		b.on(mine, opt)
		b.fires(2*time.Hour, "first")
	})
}

// TestMarksThatAreDeniedHoldUpNoOther has the topic of one tenant take no mark while another tenant
// is forgotten, whose timer does not come back when the database is lost.
func TestMarksThatAreDeniedHoldUpNoOther(t *testing.T) {
	onServer(t, func(b *server) {
		apart, denied := b.apart, b.broker.Routing().DeadLettersOf("acme")
		b.apart = func() broker.Broker {
			return &denyingBroker{apart(), func(to string) bool { return strings.HasPrefix(to, denied) }}
		}
		a, stop := b.service(mine, app.Options{})
		b.send(timer.ScheduleTimer{Key: keyOfOther("forgotten"), DueAt: time.Now().Add(time.Hour)})
		b.rest()
		must(b, a.Pause(b.Context(), timer.Pause{TenantID: "acme", By: "ann"}))
		b.wait(time.Minute)
		if _, err := a.Forget(b.Context(), "other"); err != nil {
			b.Fatal(err)
		}
		b.wait(time.Minute)
		stop()
		b.replace("")
		b.wait(duplicates)
		b.on(mine, app.Options{})()
		if got := b.hasOther("forgotten"); got != "" {
			b.Errorf("the tenant that was forgotten has %q", got)
		}
	})
}

// TestARecoveryRefusesNoTimerThatWasAccepted has a tenant that never had more timers than it may have:
// the first ones have fired when the last one is scheduled, longer ago than a message may wait.
func TestARecoveryRefusesNoTimerThatWasAccepted(t *testing.T) {
	onServer(t, func(b *server) {
		opt := func() app.Options {
			return app.Options{Quotas: limiter(b.bench, "acme", quota.Limits{Live: 2}), Inbox: handlers.InboxLimits{MaxWait: time.Minute}}
		}
		stop := b.on(mine, opt())
		for i := range 5 {
			b.schedule(fmt.Sprint("fired-", i), time.Now())
			b.rest()
		}
		b.schedule("later", time.Now().Add(20*time.Minute))
		b.wait(10 * time.Minute)
		stop()
		b.replace("")
		b.fired(time.Minute)
		b.on(mine, opt())
		b.fires(20*time.Minute, "later")
	})
}

// TestAReadingThatFailsHoldsNothingAgainstATenant has the database fail when the timers of a second
// tenant are counted, after the commands of the first one were counted as on their way.
func TestAReadingThatFailsHoldsNothingAgainstATenant(t *testing.T) {
	onServer(t, func(b *server) {
		due := time.Now().Add(time.Hour)
		b.schedule("first", due)
		b.send(timer.ScheduleTimer{Key: keyOfOther("first"), DueAt: due})
		quotas, err := quota.New(quota.Config{Default: quota.Limits{Live: 2}}, timer.ClockFunc(time.Now), quota.Options{})
		must(b, err)
		counts := 0
		b.run(b.app(&fault.Store{Full: b.store, Decide: func(op string) fault.Kind {
			if op == "stats" {
				if counts++; counts == 2 {
					return fault.Before
				}
			}
			return fault.None
		}}, app.Options{Quotas: quotas}))
		b.wait(time.Minute)
		b.schedule("second", due)
		b.wait(10 * time.Second)
		if s := statsOf(b, b.store, "acme"); s.Scheduled != 2 || counts < 2 {
			b.Errorf("%+v after %d counts, want both timers", s.Counts, counts)
		}
	})
}
