package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// limited returns a harness whose tenants have limits; its store holds the applied
// timers. Beta has none.
func limited(t *testing.T, l quota.Limits) *harness {
	d := newHarness()
	d.timers = fakeStore{d: d}
	var err error
	d.quotas, err = quota.New(quota.Config{
		Default: l, Tenants: map[timer.TenantID]quota.Limits{"beta": {}},
	}, timer.ClockFunc(time.Now), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// underQuota runs a test with a harness whose tenants have limits, in a bubble.
func underQuota(t *testing.T, l quota.Limits, test func(t *testing.T, d *harness)) {
	t.Helper()
	inBubble(t, func(t *testing.T, _ *harness) { test(t, limited(t, l)) })
}

// A fakeStore reads the timers that were applied.
type fakeStore struct {
	timer.Reader
	d *harness
}

func (s fakeStore) waiting(tenant timer.TenantID) map[timer.Key]timer.Version {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	timers := make(map[timer.Key]timer.Version)
	for _, c := range s.d.applied {
		switch c := c.(type) {
		case timer.ScheduleTimer:
			if c.TenantID == tenant {
				timers[c.Key] = c.Version
			}
		case timer.CancelTimer:
			delete(timers, c.Key)
		}
	}
	return timers
}

func (s fakeStore) Get(_ context.Context, key timer.Key) (timer.Entry, error) {
	last, waits := s.waiting(key.TenantID)[key]
	if !waits {
		return timer.Entry{}, timer.ErrNotFound
	}
	return timer.Entry{Key: key, State: timer.Scheduled, Version: last}, nil
}

func (s fakeStore) Stats(_ context.Context, tenant timer.TenantID) (timer.Stats, error) {
	return timer.Stats{Counts: timer.Counts{Scheduled: int64(len(s.waiting(tenant)))}}, nil
}

// token takes one of acme, if that takes no store.
func (d *harness) token(t *testing.T) bool {
	t.Helper()
	exceeded, err := d.quotas.Allow(t.Context(), noStore{}, quota.Again, timer.ScheduleTimer{Key: timer.Key{TenantID: "acme"}})
	return exceeded == nil && err == nil
}

// A noStore fails.
type noStore struct{ timer.Reader }

func (noStore) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{}, errors.New("asked the store")
}

// order returns the body of a ScheduleTimer.
func order(tenant timer.TenantID, i int) string {
	c := command
	c.TenantID = tenant
	c.ServiceCallID = timer.ServiceCallID(fmt.Sprint("order-", i))
	return string(envelope.Schedule(c))
}

// counted returns how many deliveries had an outcome.
func (d *harness) counted(outcome string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.results {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

var rate2 = quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 2}}

func TestOverQuotaWaitsInTheInbox(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		var log bytes.Buffer
		d.log, d.ticks = slog.NewTextHandler(&log, nil), true
		h := d.run(t, routing)
		for i, want := range []int64{0, 0, 1, 2} {
			if acked, waits := d.deliver(order("acme", i)), d.waits(t, "acme"); !acked || waits.overQuota != want {
				t.Errorf("command %d: acked %t, %+v, want %d", i, acked, waits, want)
			}
		}
		if h.Paused() {
			t.Error("the intake stopped")
		}
		if !d.deliver(order("beta", 0)) {
			t.Error("another tenant's command was not acked")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(d.dead) != 0 || len(d.applied) != 5 || d.counted("scheduled") != 5 || d.waits(t, "acme").overQuota != 0 {
			t.Errorf("%d dead letters, %d applied, counted %v", len(d.dead), len(d.applied), d.results)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "tenant_id=acme") {
			t.Errorf("want one warning, the log is\n%s", log.String())
		}
	})
}

func TestTimersThatWaitCanBeMovedAndCanceledAtTheLimit(t *testing.T) {
	underQuota(t, quota.Limits{Live: 2}, func(t *testing.T, d *harness) {
		d.run(t, routing)
		cancel := func(i int) string {
			return string(envelope.Cancel(timer.CancelTimer{
				Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", i))},
				Version: timer.Version{TimestampMS: noon.UnixMilli() + 2, CommandID: "c-2"},
			}))
		}
		for i, step := range []struct {
			body string
			want []int // timers of acme, once all that fit were accepted
		}{
			{order("acme", 0), []int{0}},
			{order("acme", 1), []int{0, 1}},
			{order("acme", 2), []int{0, 1}},
			{order("acme", 1), []int{0, 1}}, // moved
			{cancel(0), []int{1, 2}},
			{order("acme", 3), []int{1, 2}},
			{order("acme", 4), []int{1, 2}},
			{cancel(1), []int{2, 3}},
		} {
			acked := d.deliver(step.body)
			synctest.Wait()
			got := fakeStore{d: d}.waiting("acme")
			for _, n := range step.want {
				if got[timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", n))}] == (timer.Version{}) {
					t.Errorf("step %d: order %d is not accepted", i, n)
				}
			}
			if !acked || len(got) != len(step.want) {
				t.Errorf("step %d: acked %t, %d timers, want %d", i, acked, len(got), len(step.want))
			}
		}
		if d.counted("scheduled") != 5 || d.waits(t, "acme").overQuota != 1 {
			t.Errorf("counted %v, %+v; want order 1 twice, and order 4 to wait", d.results, d.waits(t, "acme"))
		}
	})
}

func TestCancelsAreNotLimited(t *testing.T) {
	underQuota(t, quota.Limits{Live: 1, Accept: quota.Rate{PerSecond: 0.001}}, func(t *testing.T, d *harness) {
		d.run(t, routing)
		for i := range 100 {
			c := timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli() + int64(i), CommandID: "c"}}
			if !d.deliver(string(envelope.Cancel(c))) {
				t.Fatalf("cancel %d was not acked", i)
			}
		}
	})
}

// TestATokenIsTakenOnceACommand has the store fail in all ways, for commands that
// share a commit and for one alone.
func TestATokenIsTakenOnceACommand(t *testing.T) {
	t.Parallel()
	for name, bad := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := limited(t, quota.Limits{Live: 5, Accept: quota.Rate{PerSecond: 0.0001, Burst: 5}})
				var broken atomic.Bool
				d.apply = func(any) error {
					if broken.Load() {
						return bad()
					}
					return nil
				}
				d.run(t, routing)
				d.deliver(order("acme", 0)) // so its timers are counted, and the next ones share a commit
				broken.Store(true)
				for round := range 5 { // of as many as there are tokens: none is put off, and keeps later ones behind it
					for i := range 4 {
						d.send([]byte(order("acme", 1+4*round+i)))
					}
					time.Sleep(time.Minute)
				}
				if d.token(t) {
					t.Error("after a failure timers must be counted")
				}
				broken.Store(false)
				for i := range 10 {
					d.deliver(order("acme", 100+i))
				}
				synctest.Wait()
				if got := len(d.applied); got != 5 {
					t.Errorf("%d commands were accepted, want 5", got)
				}
			})
		})
	}
}

// TestOverQuotaIsNoSignOfTheStore has the store down while one tenant is far over
// its quota. The try after each pause is for a command that can tell.
func TestOverQuotaIsNoSignOfTheStore(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		var down atomic.Bool
		down.Store(true)
		d.apply = func(any) error {
			if down.Load() {
				return errors.New("database is locked")
			}
			return nil
		}
		h := d.run(t, routing)
		d.deliver(order("beta", 0)) // opens the circuit breaker
		if !h.Paused() {
			t.Fatal("the intake goes on")
		}
		for range 2 {
			if !d.token(t) {
				t.Fatal("no token")
			}
		}
		var over []*message.Message
		for i := range 200 {
			over = append(over, d.send([]byte(order("acme", i))))
		}
		for range 50 { // tokens come, and are used up elsewhere
			time.Sleep(100 * time.Millisecond)
			d.token(t)
		}
		if !h.Paused() {
			t.Error("a command over quota let all others go on")
		}
		down.Store(false)
		good := d.send([]byte(order("beta", 1)))
		time.Sleep(6 * time.Second) // the longest pause
		if h.Paused() || !acked(good) {
			t.Errorf("after the outage: paused %t, acked %t", h.Paused(), acked(good))
		}
		for i, m := range over {
			select {
			case <-m.Acked():
			case <-m.Nacked():
			default:
				t.Fatalf("command %d still waits", i)
			}
		}
	})
}

// TestManyOverQuotaDelayNoOther delivers thousands at once, of a tenant that is at
// its limit of timers, among those of one that is not.
func TestManyOverQuotaDelayNoOther(t *testing.T) {
	underQuota(t, quota.Limits{Live: 100}, func(t *testing.T, d *harness) {
		d.apply = func(any) error { time.Sleep(time.Microsecond); return nil }
		d.run(t, routing)
		var acme, beta []*message.Message
		for i := range 2000 {
			acme = append(acme, d.send([]byte(order("acme", i))))
			beta = append(beta, d.send([]byte(order("beta", i))))
		}
		time.Sleep(time.Second)
		for i := range acme {
			if !acked(acme[i]) || !acked(beta[i]) {
				t.Fatalf("command %d was not acked", i)
			}
		}
		if accepted, waits := len(d.timers.(fakeStore).waiting("acme")), d.waits(t, "acme").overQuota; accepted != 100 || waits != 1900 {
			t.Errorf("%d accepted, %d wait; want 100 and 1900", accepted, waits)
		}
	})
}

// TestAnAcceptedCommandIsNoDeadLetter when it is delivered again while its tenant exceeds the rate:
// a recovery leaves out the commands of dead letters.
func TestAnAcceptedCommandIsNoDeadLetter(t *testing.T) {
	for name, limits := range map[string]handlers.InboxLimits{"by the policy": {}, "with a full inbox": {Bytes: 1}} {
		t.Run(name, func(t *testing.T) {
			l := rate2
			if limits.Bytes == 0 {
				l.Policy = quota.DeadLetter
			}
			underQuota(t, l, func(t *testing.T, d *harness) {
				d.limits = limits
				d.run(t, routing)
				for _, i := range []int{0, 1, 2, 1, 0} {
					if !d.deliver(order("acme", i)) {
						t.Errorf("order-%d was not acked", i)
					}
				}
				if len(d.dead) != 1 || len(d.applied) != 4 {
					t.Errorf("%d dead letters, applied %+v, want one dead letter, and two that change nothing", len(d.dead), d.applied)
				}
			})
		})
	}
}

// A quota says nothing about a message: a replay that it refuses does not count among the
// replays that a message may have.
func TestReplayThatAQuotaRefusesDoesNotCount(t *testing.T) {
	t.Parallel()
	d := limited(t, quota.Limits{Live: 1, Policy: quota.DeadLetter})
	d.run(t, routing)
	for i, replays := range []string{"", "1", "1", "3"} {
		if !d.deliver(fmt.Sprintf(`{"id":"c-%[1]d","type":"ScheduleTimers","tenantId":"acme","timestampMs":1767225600000,"payload":{"tenantId":"acme","timers":[`+
			`{"serviceCallId":"a-%[1]d","dueAt":"2026-01-02T00:00:00Z"},{"serviceCallId":"b-%[1]d","dueAt":"2026-01-02T00:00:00Z"}]}}`, i), envelope.HeaderDeadLetterReplays, replays) {
			t.Fatal("not acked")
		}
		got, want := d.dead[i].Metadata, []string{"0", "0", "0", "2"}[i]
		if got.Get(envelope.HeaderDeadLetterReason) != string(timer.ReasonOverQuota) || !strings.HasPrefix(got.Get(envelope.HeaderDeadLetterDetail), "live_timers: ") || got.Get(envelope.HeaderDeadLetterReplays) != want {
			t.Errorf("after %q replays: %v, want %s of them", replays, got, want)
		}
	}
}
