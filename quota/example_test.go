package quota_test

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

func ExampleConfig_Of() {
	config := quota.Config{
		Default: quota.Limits{Live: 100_000, Accept: quota.Rate{PerSecond: 500, Burst: 1000}},
		Tenants: map[timer.TenantID]quota.Limits{"acme": {Live: 5_000_000}}, // complete: no rate
	}
	fmt.Println(config.Validate())
	fmt.Println(config.Of("acme").Live, config.Of("umbrella").Live)
	// Output:
	// <nil>
	// 5000000 100000
}

// What exceeds a rate is tried again later, or becomes a dead letter, as its limits say.
func ExampleLimiter_Allow() {
	clock := timer.ClockFunc(func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) })
	limiter, err := quota.New(quota.Config{Default: quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 2}}}, clock, quota.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		command := timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}}
		exceeded, err := limiter.Allow(context.Background(), nil, false, command) // the store is asked for live timers only
		switch {
		case err != nil:
			fmt.Println(err)
		case exceeded != nil:
			fmt.Println(exceeded.Policy, exceeded.Detail)
		default:
			fmt.Println("accepted")
		}
	}
	// Output:
	// accepted
	// accepted
	// delay accept_rate: tenant acme may have 1 timers a second accepted
}
