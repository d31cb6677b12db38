package app_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/timer"
)

// An awayBroker is one that publishes nothing while it is away.
type awayBroker struct {
	broker.Broker
	away *atomic.Bool
}

func (b awayBroker) Publisher() broker.Publisher {
	return &fault.Publisher{Publisher: b.Broker.Publisher(), Decide: while(b.away, "publish")}
}

// canBeAway has the broker of all apps be away while the result is true.
func (b *server) canBeAway() *atomic.Bool {
	away, apart := new(atomic.Bool), b.apart
	b.apart = func() broker.Broker { return awayBroker{apart(), away} }
	return away
}

// firing returns who paused whom, in the database of the service.
func (b *server) firing() map[timer.TenantID]string {
	b.Helper()
	db := b.open(mine)
	defer db.Close()
	pauses, err := db.Firing(b.Context(), time.Now())
	must(b, err)
	by := make(map[timer.TenantID]string)
	for tenant, p := range pauses {
		by[tenant] = p.By
	}
	return by
}

func keyOfOther(id string) timer.Key {
	return timer.Key{TenantID: "other", ServiceCallID: timer.ServiceCallID(id)}
}

// hasOther returns which of the calls of the tenant other the database of the service has.
func (b *server) hasOther(calls ...string) string {
	b.Helper()
	db := b.open(mine)
	defer db.Close()
	var found []string
	for _, call := range calls {
		_, err := db.Get(b.Context(), keyOfOther(call))
		if err == nil {
			found = append(found, call)
		} else if !errors.Is(err, timer.ErrNotFound) {
			b.Fatal(err)
		}
	}
	return strings.Join(found, " ")
}

// TestWhatIsDecidedWhileTheBrokerIsAwayStands has operators pause, resume and forget while no
// mark can be published. That stands after a restart, and when the database is lost after it.
func TestWhatIsDecidedWhileTheBrokerIsAwayStands(t *testing.T) {
	for name, restart := range map[string]bool{"the broker is back while the service runs": false, "the service starts again": true} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				away := b.canBeAway()
				a, stop := b.service(mine, app.Options{})
				due := time.Now().Add(10 * time.Hour)
				b.schedule("waits", due)
				b.send(timer.ScheduleTimer{Key: keyOfOther("forgotten"), DueAt: due})
				b.rest()
				must(b, errors.Join(a.Pause(b.Context(), timer.Pause{TenantID: "acme", By: "ann"}), a.Pause(b.Context(), timer.Pause{By: "bob"})))
				b.wait(time.Minute)

				away.Store(true)
				must(b, errors.Join(
					a.Pause(b.Context(), timer.Pause{TenantID: "acme", By: "eve"}), a.Resume(b.Context(), ""),
					a.Pause(b.Context(), timer.Pause{TenantID: "beta", By: "eve"}), a.Resume(b.Context(), "beta"), a.Pause(b.Context(), timer.Pause{TenantID: "beta", By: "ann"}),
				))
				if c, err := a.Forget(b.Context(), "other"); err != nil || c.Total() != 1 {
					b.Errorf("forgot %+v, %v", c, err)
				}
				b.wait(time.Minute)
				b.send(timer.ScheduleTimer{Key: keyOfOther("later"), DueAt: due})
				b.wait(time.Minute)
				check := func(when string) {
					b.Helper()
					if by := b.firing(); len(by) != 2 || by["acme"] != "ann" || by["beta"] != "ann" {
						b.Errorf("%s: firing is paused by %v, want acme and beta by ann", when, by)
					}
					if got := b.hasOther("forgotten", "later"); got != "later" {
						b.Errorf("%s: the tenant that was forgotten has %q, want what was scheduled later", when, got)
					}
					if got := b.states(mine, "waits"); got != "waits:Scheduled" {
						b.Errorf("%s: %s", when, got)
					}
				}
				if restart {
					stop()
					check("before the restart")
					away.Store(false)
					stop = b.on(mine, app.Options{})
				}
				away.Store(false)
				b.wait(time.Minute)
				stop()
				check("after it")

				b.replace("")
				b.wait(duplicates)
				b.recovers(app.Options{}, true)()
				check("recovered")
			})
		})
	}
}

// TestAnOlderPauseThatIsReadAgainChangesNothing has a service that never writes how far it has
// read, so each start reads all marks, of which the last one is missing.
func TestAnOlderPauseThatIsReadAgainChangesNothing(t *testing.T) {
	onServer(t, func(b *server) {
		away, always := b.canBeAway(), new(atomic.Bool)
		always.Store(true)
		db := b.open(mine)
		a := b.app(&fault.Store{Full: db, Decide: while(always, "advance")}, app.Options{})
		stop := b.closing(b.run(a), db)
		must(b, errors.Join(a.Pause(b.Context(), timer.Pause{By: "ann"}), a.Pause(b.Context(), timer.Pause{TenantID: "acme", By: "ann"})))
		b.wait(time.Minute)
		away.Store(true)
		must(b, errors.Join(a.Resume(b.Context(), ""), a.Pause(b.Context(), timer.Pause{TenantID: "beta", By: "ann"})))
		b.schedule("call", time.Now().Add(time.Hour))
		b.rest()
		stop()
		for range 2 {
			b.on(mine, app.Options{})()
			if by := b.firing(); len(by) != 2 || by["acme"] != "ann" || by["beta"] != "ann" {
				b.Errorf("firing is paused by %v, want acme and beta by ann", by)
			}
		}
	})
}

// TestAForgottenTenantIsForgottenInACopy has a copy of the database from before, with a timer, a
// message in the inbox, and an event that waits, of the tenant and of another one.
func TestAForgottenTenantIsForgottenInACopy(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		due := time.Now().Add(10 * time.Hour)
		b.schedule("waits", due)
		b.send(timer.ScheduleTimer{Key: keyOfOther("waits"), DueAt: due})
		b.rest()
		stop()
		b.backUp("copy.db")
		db := b.open("copy.db")
		for i, tenant := range []timer.TenantID{"acme", "other"} {
			must(b, db.Inbox().PutInbox(b.Context(), timer.InboxMessage{
				TenantID: tenant, Log: "another", Number: int64(i + 1), Topic: "topic", Position: "1", MessageID: string(tenant), Body: []byte("{}"),
				ArrivedAt: time.Now(), Reason: timer.WaitQuota, RetryAt: time.Now().Add(time.Hour),
			}))
			must(b, db.Update(b.Context(), func(tx timer.Tx) error {
				key := timer.Key{TenantID: tenant, ServiceCallID: "event"}
				return tx.Emit(b.Context(), timer.DueTimeReached{Key: key, DueAt: time.Now(), ReachedAt: time.Now()})
			}))
		}
		must(b, db.Close())
		b.wait(time.Minute)

		a, stop := b.service(mine, app.Options{})
		if c, err := a.Forget(b.Context(), "other"); err != nil || c.Total() != 1 {
			b.Errorf("forgot %+v, %v", c, err)
		}
		b.wait(time.Minute)
		b.send(timer.ScheduleTimer{Key: keyOfOther("later"), DueAt: due})
		b.rest()
		stop()

		b.replace("copy.db")
		for range 2 {
			stop = b.on(mine, app.Options{})
			b.wait(time.Minute)
			stop()
			if got := b.hasOther("waits", "later"); got != "later" {
				b.Errorf("the tenant that was forgotten has %q, want what was scheduled later", got)
			}
			if got := b.states(mine, "waits"); got != "waits:Scheduled" {
				b.Errorf("of another tenant: %s", got)
			}
			db := b.open(mine)
			counts, err := db.Inbox().InboxCounts(b.Context(), "other")
			if must(b, db.Close()); err != nil || len(counts) != 0 {
				b.Errorf("its messages in the inbox: %+v, %v", counts, err)
			}
		}
		b.fires(time.Minute, "event")
	})
}
