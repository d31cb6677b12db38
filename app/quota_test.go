package app_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A census counts what became of the commands of a tenant.
type census struct {
	mu          sync.Mutex
	deadLetters int
	events      int
	late        time.Duration // of the event that was latest
}

// watch counts events and dead letters of a tenant.
func (b *bench) watch(tenant timer.TenantID) *census {
	c, r := new(census), b.broker.Routing()
	for topic, count := range map[string]func(*message.Message){
		r.DeadLettersOf(tenant): func(*message.Message) { c.deadLetters++ },
		r.EventsOf(tenant):      func(m *message.Message) { c.events++; c.late = max(c.late, time.Since(b.event(m).DueAt)) },
	} {
		messages, err := b.broker.Subscriber("watch-"+string(tenant)).Subscribe(b.Context(), topic)
		must(b, err)
		go func() {
			for m := range messages {
				if m.Metadata.Get(envelope.HeaderTenantID) == string(tenant) { // they may share a topic
					c.mu.Lock()
					count(m)
					c.mu.Unlock()
				}
				m.Ack()
			}
		}()
	}
	return c
}

func (c *census) count() (events, deadLetters int, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events, c.deadLetters, c.late
}

// sendMany publishes commands of a tenant.
func (b *bench) sendMany(tenant timer.TenantID, n int, due time.Time) {
	b.Helper()
	for range n {
		v := b.version()
		b.send(timer.ScheduleTimer{Key: timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(v.CommandID)}, Version: v, DueAt: due})
	}
}

// limiter returns the quotas of one tenant.
func limiter(t testing.TB, tenant timer.TenantID, limits quota.Limits) *quota.Limiter {
	t.Helper()
	k, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{tenant: limits}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	return k
}

// TestATenantOverItsQuotaDelaysNoOtherTenant has more commands over a quota than a broker
// has in flight, by each limit. Those of another tenant go on at once, and in the
// end nothing is lost.
func TestATenantOverItsQuotaDelaysNoOtherTenant(t *testing.T) {
	longtest.NotShort(t)
	for name, l := range map[string]quota.Limits{
		"live timers": {Live: 10},
		"accept rate": {Accept: quota.Rate{PerSecond: 0.001, Burst: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			if l.Live == 0 {
				longtest.NotShort(t)
			}
			onBrokers(t, func(b *bench) {
				over, others := 1500, 100
				if b.broker.Routing() == nats.DefaultRouting() { // which has 4096 in flight
					over = 4500
					if l.Live > 0 {
						b.Skip("one limit is enough: 4500 commands take a while")
					}
				}
				k, counters := limiter(b, "greedy", l), new(app.Counters)
				b.serve(app.Options{Quotas: k, Counters: counters})
				greedy, other := b.watch("greedy"), b.watch("other")
				synctest.Wait()
				due := time.Now().Add(2 * time.Minute)
				b.sendMany("greedy", over, due)
				for range 6 {
					b.sendMany("other", others, time.Now())
					time.Sleep(5 * time.Second)
				}
				if events, deadLetters, late := other.count(); events != 6*others || deadLetters != 0 || late > time.Second {
					b.Errorf("%d of %d timers of the other tenant fired, %v late, %d dead letters", events, 6*others, late, deadLetters)
				}
				if _, deadLetters, _ := greedy.count(); statsOf(b, b.store, "greedy").Scheduled != 10 || deadLetters != 0 {
					b.Errorf("%+v, %d dead letters of %d commands; want 10 and none", statsOf(b, b.store, "greedy"), deadLetters, over)
				}
				if n := counters.Commands()[handlers.Result{Type: "ScheduleTimer", Outcome: "failed"}]; n > 0 {
					b.Errorf("%d count as failed", n)
				}
				must(b, k.Use(quota.Config{}))
				time.Sleep(time.Until(due) + 10*time.Minute) // the longest delay is five
				if events, deadLetters, _ := greedy.count(); events != over || deadLetters != 0 {
					b.Errorf("%d events and %d dead letters of %d commands", events, deadLetters, over)
				}
			})
		})
	}
}

// overdue returns what counts as overdue of a tenant, or of all.
func (b *bench) overdue(a *app.App, tenant timer.TenantID) timer.Overdue {
	b.Helper()
	o, err := a.Reader().Overdue(b.Context(), tenant, time.Now())
	must(b, err)
	return o
}

// TestWhatWaitsForAFireRateIsCountedApart has a tenant with far more due than it may fire,
// next to a tenant without a limit: the service is on time, and reports the held timers.
func TestWhatWaitsForAFireRateIsCountedApart(t *testing.T) {
	onBrokers(t, func(b *bench) {
		const n = 100
		counters := new(app.Counters)
		a, stop := b.serve(app.Options{Quotas: limiter(b, "greedy", quota.Limits{Fire: quota.Rate{PerSecond: 1, Burst: 1}}), Counters: counters})
		b.sendMany("greedy", n, time.Now())
		time.Sleep(10 * time.Second)
		b.sendMany("other", 5, time.Now())
		time.Sleep(10*time.Second + 50*time.Millisecond) // between two timers of the greedy one
		for tenant, want := range map[timer.TenantID]bool{"": true, "greedy": true, "other": false} {
			s, o := statsOf(b, a.Reader(), tenant), b.overdue(a, tenant)
			if held := s.Held > n-30 && s.Held < n; held != want || o != (timer.Overdue{}) || tenant == "" && time.Since(s.NextDue) > time.Second {
				b.Errorf("%q: %d are held, %v behind, overdue %+v", tenant, s.Held, time.Since(s.NextDue), o)
			}
		}
		if l := counters.Lateness(); l.Events < 5 || l.Events > 7 || l.Max > time.Second {
			b.Errorf("late: %+v", l)
		}
		for _, c := range a.Checks(b.Context()) {
			if c.Red {
				b.Errorf("%+v", c)
			}
		}
		stop() // a timer that is late for another reason is overdue
		time.Sleep(time.Second)
		late := time.Now()
		put(b, b.store, "other", late, calls(5)...)
		time.Sleep(30 * time.Second)
		if o := b.overdue(a, ""); o.Timers != 5 || late.Sub(o.Oldest) > 2*time.Second {
			b.Errorf("while nothing fires: %+v", o)
		}
		time.Sleep(time.Hour) // it is long ago that the greedy one had to wait
		if o := b.overdue(a, ""); o.Timers < n-30 {
			b.Errorf("after an hour: %+v", o)
		}
	})
}

// TestWhatWaitsForAPauseIsCountedApart, of a tenant and then of all: the service is on time.
func TestWhatWaitsForAPauseIsCountedApart(t *testing.T) {
	onBrokers(t, func(b *bench) {
		a, _ := b.serve(app.Options{})
		wants := func(paused map[timer.TenantID]int64) {
			b.Helper()
			for tenant, want := range paused {
				s, o := statsOf(b, a.Reader(), tenant), b.overdue(a, tenant)
				if s.Paused != want || o != (timer.Overdue{}) || tenant == "" && !s.NextDue.IsZero() && time.Since(s.NextDue) > 2*time.Second {
					b.Errorf("%q: %+v, overdue %+v, want %d that wait for the end of a pause", tenant, s, o, want)
				}
			}
		}
		must(b, a.Pause(b.Context(), timer.Pause{TenantID: "acme", By: "ops"}))
		b.sendMany("acme", 7, time.Now())
		b.sendMany("other", 5, time.Now())
		time.Sleep(10 * time.Minute)
		wants(map[timer.TenantID]int64{"": 7, "acme": 7, "other": 0})
		if c := b.check(a, "poller"); c.Red || !strings.HasPrefix(c.Reason, "firing of acme is paused since ") || !strings.HasSuffix(c.Reason, " by ops") {
			b.Errorf("check %+v", c)
		}
		must(b, a.Pause(b.Context(), timer.Pause{By: "ops"}))
		want := "firing is paused since " + time.Now().UTC().Format(time.RFC3339) + " by ops"
		b.sendMany("other", 5, time.Now())
		time.Sleep(10 * time.Minute)
		if c := b.check(a, "poller"); c.Red || c.Reason != want {
			b.Errorf("check %+v, want %q", c, want)
		}
		wants(map[timer.TenantID]int64{"": 12, "acme": 7, "other": 5})
		for _, tenant := range []timer.TenantID{"", "acme"} {
			must(b, a.Resume(b.Context(), tenant))
		}
		time.Sleep(time.Second)
		wants(map[timer.TenantID]int64{"": 0})
	})
}

// TestATimerExpiresAsTheQuotasOfItsTenantSay has commands come by each door while firing is paused.
// The quotas change before the last one comes, which changes nothing for waiting commands.
func TestATimerExpiresAsTheQuotasOfItsTenantSay(t *testing.T) {
	onBrokers(t, func(b *bench) {
		quotas := limiter(b, "acme", quota.Limits{ExpireAfter: time.Hour})
		a, _ := b.serve(app.Options{Quotas: quotas})
		due := time.Now().Add(time.Minute)
		schedule := func(call timer.ServiceCallID, tenant timer.TenantID, expires time.Time) {
			b.send(timer.ScheduleTimer{Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: b.version(), DueAt: due, ExpiresAt: expires})
		}
		must(b, a.Pause(b.Context(), timer.Pause{By: "test"}))
		schedule("sent", "acme", time.Time{})
		schedule("named", "acme", due.Add(3*time.Hour))
		schedule("other", "globex", time.Time{})
		must(b, a.Timers().Schedule(b.Context(), in("called", time.Minute)))
		b.wait(time.Second)
		must(b, quotas.Use(quota.Config{Default: quota.Limits{ExpireAfter: 24 * time.Hour}}))
		schedule("later", "acme", time.Time{})
		b.wait(2 * time.Hour)
		must(b, a.Resume(b.Context(), ""))
		b.wait(time.Minute)
		for _, want := range []struct {
			call    timer.ServiceCallID
			tenant  timer.TenantID
			state   timer.State
			expires time.Duration // after the due time; 0: never
		}{
			{"sent", "acme", timer.Expired, time.Hour},
			{"called", "acme", timer.Expired, time.Hour},
			{"named", "acme", timer.Reached, 3 * time.Hour},
			{"later", "acme", timer.Reached, 24 * time.Hour},
			{"other", "globex", timer.Reached, 0},
		} {
			e, err := a.Timers().Get(b.Context(), timer.Key{TenantID: want.tenant, ServiceCallID: want.call})
			must(b, err)
			var expires time.Duration
			if !e.ExpiresAt.IsZero() {
				expires = e.ExpiresAt.Sub(e.DueAt)
			}
			if e.State != want.state || expires != want.expires {
				b.Errorf("%s is %s and expires after %v, want %s and %v", want.call, e.State, expires, want.state, want.expires)
			}
		}
	})
}
