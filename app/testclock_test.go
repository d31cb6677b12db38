package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestATestClockGoesFromOneDueTimeToTheNext has a handler that fails, puts off and schedules, and a
// tenant that is paused for a time.
func TestATestClockGoesFromOneDueTimeToTheNext(t *testing.T) {
	inBubble(t, func(b *bench) {
		began := time.Now().UTC().Truncate(time.Second)
		clock := app.NewTestClock(began)
		var calls []string
		seen := make(map[timer.ServiceCallID]int)
		var timers *app.Timers
		a, _ := b.serve(app.Options{TestClock: clock}, func(t *app.Timers) {
			t.OnDue("", func(ctx context.Context, e timer.DueTimeReached) error {
				calls = append(calls, fmt.Sprintf("%s at %v", e.ServiceCallID, clock.Now().Sub(began).Round(time.Minute)))
				switch seen[e.ServiceCallID]++; {
				case e.ServiceCallID == "fails" && seen["fails"] < 3:
					return errors.New("no")
				case e.ServiceCallID == "puts-off" && seen["puts-off"] == 1:
					return timer.Later(time.Hour)
				case e.ServiceCallID == "first":
					return timers.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "next", After: 30 * time.Minute})
				}
				return nil
			}, app.OnDueOptions{})
		})
		timers = a.Timers()
		paused := client.Timer{TenantID: "globex", ServiceCallID: "paused", After: time.Hour}
		must(b, timers.Schedule(b.Context(), in("first", time.Hour), in("fails", 2*time.Hour), in("puts-off", 150*time.Minute), in("not-yet", 4*time.Hour), paused))
		must(b, a.Pause(b.Context(), timer.Pause{TenantID: "globex", Until: began.Add(200 * time.Minute), By: "test"}))
		b.wait(time.Hour) // real time moves nothing
		if len(calls) != 0 {
			b.Fatal(calls)
		}
		did, err := clock.Advance(b.Context(), began.Add(time.Hour+15*time.Minute))
		must(b, err)
		if want := (app.Advanced{Now: began.Add(75 * time.Minute), Reached: 1, Published: 1}); fmt.Sprint(did) != fmt.Sprint(want) {
			b.Errorf("%+v, want %+v", did, want)
		}
		did, err = clock.Advance(b.Context(), began.Add(4*time.Hour-time.Second))
		must(b, err)
		if want := (app.Advanced{Now: began.Add(4*time.Hour - time.Second), Reached: 4, Published: 4}); fmt.Sprint(did) != fmt.Sprint(want) {
			b.Errorf("%+v, want %+v", did, want)
		}
		want := "first at 1h0m0s, next at 1h30m0s, fails at 2h0m0s, fails at 2h0m0s, fails at 2h0m0s, puts-off at 2h30m0s, paused at 3h20m0s, puts-off at 3h30m0s"
		if got := strings.Join(calls, ", "); got != want {
			b.Errorf("got  %s\nwant %s", got, want)
		}
		if _, err := clock.Advance(b.Context(), began); !errors.Is(err, timer.ErrInvalid) {
			b.Errorf("backwards: %v", err)
		}
	})
}

// TestATestClockWaitsForTheBrokerAndGoesThroughQuotas has commands on their way, more than the
// quotas allow at once.
func TestATestClockWaitsForTheBrokerAndGoesThroughQuotas(t *testing.T) {
	onBrokers(t, func(b *bench) {
		began := time.Now().UTC().Truncate(time.Second)
		clock := app.NewTestClock(began)
		quotas, err := quota.New(quota.Config{Default: quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 5}, Fire: quota.Rate{PerSecond: 1, Burst: 5}}}, clock, quota.Options{})
		must(b, err)
		b.serve(app.Options{TestClock: clock, Quotas: quotas})
		const n = 20
		b.sendMany("acme", n, began.Add(time.Minute))
		did, err := clock.Advance(b.Context(), began.Add(59*time.Second))
		must(b, err)
		if s := b.stats(); did.Reached != 0 || s.Scheduled < n/2 { // a message of the inbox may be looked at some seconds late
			b.Errorf("%+v, %+v: want most accepted, and none fired", did, s)
		}
		did, err = clock.Advance(b.Context(), began.Add(5*time.Minute))
		must(b, err)
		if did.Reached != n || did.Published != n {
			b.Errorf("%+v: want %d", did, n)
		}
	})
}
