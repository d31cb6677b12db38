package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A census counts the results of the commands of a tenant.
type census struct {
	mu          sync.Mutex
	deadLetters int
	events      int
	late        time.Duration // at most
}

// watch counts events and dead letters of a tenant.
func (b *bench) watch(tenant timer.TenantID) *census {
	c, r := new(census), b.broker.Routing()
	for topic, count := range map[string]func(body []byte){
		r.DeadLettersOf(tenant): func([]byte) { c.deadLetters++ },
		r.EventsOf(tenant): func(body []byte) {
			m, err := envelope.Decode(body)
			if err != nil {
				b.t.Error(err)
				return
			}
			c.events++
			c.late = max(c.late, time.Since(m.Payload.(timer.DueTimeReached).DueAt))
		},
	} {
		messages, err := b.broker.Subscriber("watch-"+string(tenant)).Subscribe(b.t.Context(), topic)
		if err != nil {
			b.t.Fatal(err)
		}
		go func() {
			for m := range messages {
				if m.Metadata.Get(envelope.HeaderTenantID) == string(tenant) { // they may share a topic
					c.mu.Lock()
					count(m.Payload)
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

// send publishes ScheduleTimers of a tenant, all at once.
func (b *bench) send(tenant timer.TenantID, n int, due time.Time) {
	b.t.Helper()
	messages := make([]*message.Message, n)
	for i := range messages {
		b.sent++
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", b.sent))},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprint("command-", b.sent)},
			DueAt:   due,
		}
		messages[i] = message.NewMessage(c.CommandID, envelope.Schedule(c))
	}
	if err := broker.NewWatermillPublisher(b.broker.Publisher()).Publish(b.broker.Routing().CommandsOf(tenant), messages...); err != nil {
		b.t.Fatal(err)
	}
}

func limiter(t *testing.T, config quota.Config) *quota.Limiter {
	t.Helper()
	k, err := quota.New(config, timer.ClockFunc(time.Now), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestATenantOverItsQuotaDelaysNoOtherTenant has more commands over a quota than a broker
// has in flight, by each limit. Those of another tenant go on at once, and in the
// end nothing is lost.
func TestATenantOverItsQuotaDelaysNoOtherTenant(t *testing.T) {
	for name, l := range map[string]quota.Limits{
		"live timers": {Live: 10},
		"accept rate": {Accept: quota.Rate{PerSecond: 0.001, Burst: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			if l.Live == 0 {
				longtest.NotShort(t)
			}
			inBubbles(t, func(t *testing.T, b *bench) {
				over, others := 1500, 100
				if b.broker.Routing() == nats.DefaultRouting() { // which has 4096 in flight
					over = 4500
					if l.Live > 0 {
						t.Skip("one limit is enough: 4500 commands take a while")
					}
				}
				k := limiter(t, quota.Config{Tenants: map[timer.TenantID]quota.Limits{"greedy": l}})
				counters := new(app.Counters)
				b.serve(b.store, app.Options{Quotas: k, Counters: counters})
				greedy, other := b.watch("greedy"), b.watch("other")
				synctest.Wait()
				due := time.Now().Add(2 * time.Minute)
				b.send("greedy", over, due)
				for range 6 {
					b.send("other", others, time.Now())
					time.Sleep(5 * time.Second)
				}
				if events, deadLetters, late := other.count(); events != 6*others || deadLetters != 0 || late > time.Second {
					t.Errorf("%d of %d timers of the other tenant fired, %v late, %d dead letters", events, 6*others, late, deadLetters)
				}
				counts, err := b.store.Stats(t.Context(), "greedy")
				if _, deadLetters, _ := greedy.count(); err != nil || counts.Scheduled != 10 || deadLetters != 0 {
					t.Errorf("%d timers wait, %d dead letters of %d commands, %v; want 10 and none", counts.Scheduled, deadLetters, over, err)
				}
				if n := counters.Commands()[handlers.Result{Type: "ScheduleTimer", Outcome: "failed"}]; n > 0 {
					t.Errorf("%d count as failed", n)
				}
				if err := k.Use(quota.Config{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(due) + 10*time.Minute) // the longest delay is five
				if events, deadLetters, _ := greedy.count(); events != over || deadLetters != 0 {
					t.Errorf("%d events and %d dead letters of %d commands", events, deadLetters, over)
				}
			})
		})
	}
}

// TestWhatWaitsForAFireRateIsCountedApart has a tenant with far more due than it may fire,
// beside one without a limit: the service is on time, and says what is held.
func TestWhatWaitsForAFireRateIsCountedApart(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		const n = 100
		k := limiter(t, quota.Config{Tenants: map[timer.TenantID]quota.Limits{"greedy": {Fire: quota.Rate{PerSecond: 1, Burst: 1}}}})
		counters := new(app.Counters)
		a, stop := b.serveUntil(b.store, app.Options{Quotas: k, Counters: counters})
		synctest.Wait()
		b.send("greedy", n, time.Now())
		time.Sleep(10 * time.Second)
		b.send("other", 5, time.Now())
		time.Sleep(10*time.Second + 50*time.Millisecond) // between two timers of the greedy one
		now := time.Now()
		for tenant, want := range map[timer.TenantID]bool{"": true, "greedy": true, "other": false} {
			o, err := a.Reader().Overdue(t.Context(), tenant, now)
			if err != nil || o != (timer.Overdue{}) {
				t.Errorf("overdue of %q: %+v, %v", tenant, o, err)
			}
			s, err := a.Reader().Stats(t.Context(), tenant)
			if held := s.Held > n-30 && s.Held < n; err != nil || held != want {
				t.Errorf("%q: %d are held, %v", tenant, s.Held, err)
			}
			if tenant == "" && now.Sub(s.NextDue) > time.Second {
				t.Errorf("%v behind", now.Sub(s.NextDue))
			}
		}
		if l := counters.Lateness(); l.Events < 5 || l.Events > 7 || l.Max > time.Second {
			t.Errorf("late: %+v", l)
		}
		for _, c := range a.Checks(t.Context()) {
			if c.Red {
				t.Errorf("%+v", c)
			}
		}

		// What is late for another reason is overdue.
		stop()
		time.Sleep(time.Second)
		late := time.Now()
		put(t, b.store, "other", late, "late-1", "late-2", "late-3", "late-4", "late-5")
		time.Sleep(30 * time.Second)
		if o, err := a.Reader().Overdue(t.Context(), "", time.Now()); err != nil || o.Timers != 5 || late.Sub(o.Oldest) > 2*time.Second {
			t.Errorf("while nothing fires: %+v, %v", o, err)
		}
		time.Sleep(time.Hour) // it is long ago that the greedy one had to wait
		if o, err := a.Reader().Overdue(t.Context(), "", time.Now()); err != nil || o.Timers < n-30 {
			t.Errorf("after an hour: %+v, %v", o, err)
		}
	})
}

// TestWhatWaitsForAPauseIsCountedApart, of a tenant and then of all: the service is on time.
func TestWhatWaitsForAPauseIsCountedApart(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a := b.serve(b.store, app.Options{})
		reads := a.Reader()
		wants := func(tenant timer.TenantID, paused int64) {
			t.Helper()
			now := time.Now()
			if o, err := reads.Overdue(t.Context(), tenant, now); err != nil || o != (timer.Overdue{}) {
				t.Errorf("overdue of %q: %+v, %v", tenant, o, err)
			}
			if s, err := reads.Stats(t.Context(), tenant); err != nil || s.Paused != paused || tenant == "" && !s.NextDue.IsZero() && now.Sub(s.NextDue) > 2*time.Second {
				t.Errorf("%q: %d wait for the end of a pause, want %d, and the next is due at %v, %v", tenant, s.Paused, paused, s.NextDue, err)
			}
		}
		if err := a.Pause(t.Context(), timer.Pause{TenantID: "acme", By: "ops"}); err != nil {
			t.Fatal(err)
		}
		b.send("acme", 7, time.Now())
		b.send("other", 5, time.Now())
		time.Sleep(10 * time.Minute)
		wants("", 7)
		wants("acme", 7)
		wants("other", 0)
		if c := pollerCheck(t, a); c.Red || !strings.HasPrefix(c.Reason, "firing of acme is paused since ") || !strings.HasSuffix(c.Reason, " by ops") {
			t.Errorf("check %+v", c)
		}
		if err := a.Pause(t.Context(), timer.Pause{By: "ops"}); err != nil {
			t.Fatal(err)
		}
		want := "firing is paused since " + time.Now().UTC().Format(time.RFC3339) + " by ops"
		b.send("other", 5, time.Now())
		time.Sleep(10 * time.Minute)
		if c := pollerCheck(t, a); c.Red || c.Reason != want {
			t.Errorf("check %+v, want %q", c, want)
		}
		wants("", 12)
		wants("acme", 7)
		wants("other", 5)
		for _, tenant := range []timer.TenantID{"", "acme"} {
			if err := a.Resume(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		wants("", 0)
	})
}
