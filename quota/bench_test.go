package quota_test

import (
	"fmt"
	"testing"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkAllow is what quotas cost a command: with limits that are not reached,
// and for a tenant without limits.
func BenchmarkAllow(b *testing.B) {
	for name, l := range map[string]quota.Limits{
		"limited": {Live: 1 << 40, Accept: quota.Rate{PerSecond: 1e9}},
		"free":    {},
	} {
		b.Run(name, func(b *testing.B) {
			k, err := quota.New(of(l), clock, quota.Options{})
			if err != nil {
				b.Fatal(err)
			}
			tenants := make([]timer.TenantID, 1000)
			for i := range tenants {
				tenants[i] = timer.TenantID(fmt.Sprintf("tenant-%d", i))
				exceeded, err := k.Allow(b.Context(), new(fakeStore), true, command(timer.Key{TenantID: tenants[i]}))
				if exceeded != nil || err != nil {
					b.Fatal(exceeded, err)
				}
				k.Done(tenants[i], 1, timer.Result{Outcome: timer.DidReschedule})
			}
			i := 0
			for b.Loop() {
				tenant := tenants[i%len(tenants)]
				if !take(k, tenant) {
					b.Fatal("refused")
				}
				k.Done(tenant, 1, timer.Result{Outcome: timer.DidReschedule})
				i++
			}
		})
	}
}
