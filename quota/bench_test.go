package quota_test

import (
	"fmt"
	"testing"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkTake is what quotas cost a command: with limits that nobody reaches,
// and for a tenant without limits.
func BenchmarkTake(b *testing.B) {
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
				g, over, err := k.Admit(b.Context(), new(shelf), timer.Key{TenantID: tenants[i]})
				if over != nil || err != nil {
					b.Fatal(over, err)
				}
				g.Done(timer.DidReschedule)
			}
			i := 0
			for b.Loop() {
				g, ok := k.Take(tenants[i%len(tenants)])
				if !ok {
					b.Fatal("refused")
				}
				g.Done(timer.DidReschedule)
				k.Arrived(tenants[i%len(tenants)], 1)
				i++
			}
		})
	}
}
