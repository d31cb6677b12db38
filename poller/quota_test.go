package poller_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// rates returns the quotas of tenants with a fire rate.
func (b *bench) rates(perSecond map[timer.TenantID]float64) *quota.Limiter {
	b.Helper()
	c := quota.Config{Tenants: make(map[timer.TenantID]quota.Limits)}
	for tenant, rate := range perSecond {
		c.Tenants[tenant] = quota.Limits{Fire: quota.Rate{PerSecond: rate}}
	}
	k, err := quota.New(c, realClock, quota.Options{})
	must(b, err)
	return k
}

// TestATenantThatIsHeldBackDelaysNobody has a tenant with far more due than it
// may fire, in crowds and not, and one whose timers are due now and then.
func TestATenantThatIsHeldBackDelaysNobody(t *testing.T) {
	for name, batch := range map[string]int{"more is due than a batch": 20, "less is due": 1000} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				const held, perSecond, others = 300, 100, 29
				b.due("held", held, 0, 0)
				b.due("other", others, 3*time.Millisecond, 71*time.Millisecond)
				b.poll(poller.Options{Interval: time.Hour, Batch: batch, Quotas: b.rates(map[timer.TenantID]float64{"held": perSecond})})
				last := ""
				for got := map[timer.TenantID]int{}; got["held"] < held || got["other"] < others; {
					e := <-b.fired
					got[e.TenantID]++
					if e.TenantID == "other" {
						if late := time.Since(e.DueAt); late > 10*time.Millisecond {
							b.Errorf("%s fired %v late", e.Key, late)
						}
						continue
					}
					at := time.Since(b.began)
					if most := perSecond + int(at.Seconds()*perSecond) + 1; got["held"] > most {
						b.Errorf("%d fired within %v, want at most %d", got["held"], at, most)
					}
					if call := string(e.ServiceCallID); call < last {
						b.Errorf("%s fired after %s", call, last)
					} else if got["held"]%10 == 0 { // a portion comes in any order
						last = call[:5] + "0"
					}
				}
				if took := time.Since(b.began); took < 2*time.Second || took > 2200*time.Millisecond {
					b.Errorf("all had fired after %v, want 2s", took)
				}
				synctest.Wait()
				if b.polls.Load() > 150 {
					b.Errorf("looked %d times in two seconds", b.polls.Load())
				}
			})
		})
	}
}

// TestAHeldBackTenantDoesNotKeepThePollerBusy has more and more due, and tells
// the poller each time.
func TestAHeldBackTenantDoesNotKeepThePollerBusy(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.due("held", 40, -time.Second, 50*time.Millisecond)
		p := b.poll(poller.Options{Quotas: b.rates(map[timer.TenantID]float64{"held": 0.5})})
		for i := range 2000 {
			p.Sooner(b.began.Add(time.Duration(i) * time.Millisecond))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if b.polls.Load() > 220 || len(b.fired) != 2 {
			b.Errorf("looked %d times in two seconds, %d fired; want 200 and 2", b.polls.Load(), len(b.fired))
		}
		before := b.polls.Load()
		if n := b.after(20 * time.Second); b.polls.Load()-before > 220 || n != 12 {
			b.Errorf("looked %d times in the next twenty seconds, %d fired; want 200 and 12", b.polls.Load()-before, n)
		}
	})
}

// TestWhatMayFireGoesWithoutPause has more due than a batch holds, of tenants
// that may fire, and of one that may not.
func TestWhatMayFireGoesWithoutPause(t *testing.T) {
	inBubble(t, func(b *bench) {
		const small, great = 50, 100
		may := map[timer.TenantID]float64{"held": 0.001}
		b.due("held", 100, -time.Hour, 0)
		for i := range small {
			tenant := timer.TenantID(fmt.Sprint("small-", i))
			may[tenant] = 0.001
			b.due(tenant, 2, -time.Minute, 0)
		}
		b.due("great", great, -time.Second, 0) // without a limit
		b.due("one", 1, -time.Second, 0)       // so the great one has half of a batch
		b.poll(poller.Options{Batch: 20, Quotas: b.rates(may)})
		b.fires(make([]time.Duration, 1+small+great+1)...)
	})
}

func TestAQuotaThatIsRaisedCountsAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.due("held", 20, 0, 0)
		k := b.rates(map[timer.TenantID]float64{"held": 0.001})
		b.poll(poller.Options{Interval: time.Hour, Quotas: k})
		if n := b.after(10 * time.Second); n != 1 {
			b.Errorf("%d fired, want 1", n)
		}
		must(b, k.Use(quota.Config{}))
		if n := b.after(100 * time.Millisecond); n != 20 {
			b.Errorf("%d had fired 100 ms after the quota was raised, want all", n)
		}
	})
}
