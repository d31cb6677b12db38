package poller_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// rates returns the quotas of tenants with a fire rate.
func rates(t *testing.T, perSecond map[timer.TenantID]float64) *quota.Limiter {
	t.Helper()
	k, err := quota.New(book(perSecond), realClock, quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func book(perSecond map[timer.TenantID]float64) quota.Config {
	b := quota.Config{Tenants: make(map[timer.TenantID]quota.Limits)}
	for tenant, rate := range perSecond {
		b.Tenants[tenant] = quota.Limits{Fire: quota.Rate{PerSecond: rate}}
	}
	return b
}

// due schedules timers of a tenant, one after each pause.
func due(t *testing.T, s timer.Store, tenant timer.TenantID, n int, first time.Time, pause time.Duration) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		commands[i] = timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("%06d", i))},
			Version: timer.Version{TimestampMS: 1, CommandID: "c"},
			DueAt:   first.Add(time.Duration(i) * pause),
		}
	}
	if _, err := s.Schedule(t.Context(), time.Now(), commands...); err != nil {
		t.Fatal(err)
	}
}

// TestATenantThatIsHeldBackDelaysNobody has a tenant with far more due than it
// may fire, in crowds and not, beside one whose timers are due now and then.
func TestATenantThatIsHeldBackDelaysNobody(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]int{"more is due than a batch": 20, "less is due": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := open(t), time.Now().Truncate(time.Millisecond)
				const held, perSecond, others = 300, 100, 29
				due(t, s, "held", held, began, 0)
				due(t, s, "other", others, began.Add(3*time.Millisecond), 71*time.Millisecond)
				var polls atomic.Int64
				_, fired := poll(t, s, realClock, poller.Options{
					Interval: time.Hour, Batch: batch, Quotas: rates(t, map[timer.TenantID]float64{"held": perSecond}),
					Polled: func(time.Duration, error) { polls.Add(1) },
				})
				last := ""
				for got := map[timer.TenantID]int{}; got["held"] < held || got["other"] < others; {
					e := <-fired
					got[e.TenantID]++
					at := time.Since(began)
					if late := at - e.DueAt.Sub(began); e.TenantID == "other" && late > 10*time.Millisecond {
						t.Errorf("%s fired %v late", e.Key, late)
					}
					if e.TenantID != "held" {
						continue
					}
					if most := perSecond + int(at.Seconds()*perSecond) + 1; got["held"] > most {
						t.Errorf("%d fired within %v, want at most %d", got["held"], at, most)
					}
					if call := string(e.ServiceCallID); call < last {
						t.Errorf("%s fired after %s", call, last)
					} else if got["held"]%10 == 0 { // a portion comes in any order
						last = call[:5] + "0"
					}
				}
				if took := time.Since(began); took < 2*time.Second || took > 2200*time.Millisecond {
					t.Errorf("all had fired after %v, want 2s", took)
				}
				synctest.Wait()
				if polls.Load() > 150 {
					t.Errorf("looked %d times in two seconds", polls.Load())
				}
			})
		})
	}
}

// TestAHeldBackTenantDoesNotKeepThePollerBusy has more and more due, and tells
// the poller each time.
func TestAHeldBackTenantDoesNotKeepThePollerBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		due(t, s, "held", 40, began.Add(-time.Second), 50*time.Millisecond)
		var polls atomic.Int64
		p, fired := poll(t, s, realClock, poller.Options{
			Quotas: rates(t, map[timer.TenantID]float64{"held": 0.5}),
			Polled: func(time.Duration, error) { polls.Add(1) },
		})
		for i := range 2000 {
			p.Sooner(began.Add(time.Duration(i) * time.Millisecond))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if polls.Load() > 220 || len(fired) != 2 {
			t.Errorf("looked %d times in two seconds, %d fired; want 200 and 2", polls.Load(), len(fired))
		}
		before := polls.Load()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if polls.Load()-before > 220 || len(fired) != 12 {
			t.Errorf("looked %d times in the next twenty seconds, %d fired; want 200 and 12", polls.Load()-before, len(fired))
		}
	})
}

// TestWhatMayFireGoesWithoutPause has more due than a batch holds, of tenants
// that may fire, beside one that may not.
func TestWhatMayFireGoesWithoutPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		const small, great = 50, 100
		may := map[timer.TenantID]float64{"held": 0.001}
		due(t, s, "held", 100, began.Add(-time.Hour), 0)
		for i := range small {
			tenant := timer.TenantID(fmt.Sprint("small-", i))
			may[tenant] = 0.001
			due(t, s, tenant, 2, began.Add(-time.Minute), 0)
		}
		due(t, s, "great", great, began.Add(-time.Second), 0) // without a limit
		due(t, s, "one", 1, began.Add(-time.Second), 0)       // so the great one has half of a batch
		_, fired := poll(t, s, realClock, poller.Options{Batch: 20, Quotas: rates(t, may)})
		for range 1 + small + great + 1 {
			<-fired
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("what may fire took %v", took)
		}
	})
}

func TestAQuotaThatIsRaisedCountsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		due(t, s, "held", 20, began, 0)
		k := rates(t, map[timer.TenantID]float64{"held": 0.001})
		_, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour, Quotas: k})
		time.Sleep(10 * time.Second)
		if len(fired) != 1 {
			t.Errorf("%d fired, want 1", len(fired))
		}
		if err := k.Use(quota.Config{}); err != nil {
			t.Fatal(err)
		}
		raised := time.Now()
		for range 20 {
			<-fired
		}
		if late := time.Since(raised); late > 100*time.Millisecond {
			t.Errorf("the rest fired %v after the quota was raised", late)
		}
	})
}

// TestWithQuotasThatNobodyReachesNothingChanges fires at the due times, and polls
// as often as without.
func TestWithQuotasThatNobodyReachesNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now().Truncate(time.Millisecond)
		due(t, s, "acme", 20, began.Add(time.Second), time.Second)
		var polls atomic.Int64
		_, fired := poll(t, s, realClock, poller.Options{
			Interval: time.Hour, Quotas: rates(t, map[timer.TenantID]float64{"acme": 10}),
			Polled: func(time.Duration, error) { polls.Add(1) },
		})
		for range 20 {
			e := <-fired
			if late := time.Since(e.DueAt); late > 0 {
				t.Errorf("%s fired %v late", e.Key, late)
			}
		}
		synctest.Wait()
		if polls.Load() > 42 {
			t.Errorf("looked %d times, want twice a timer", polls.Load())
		}
	})
}
