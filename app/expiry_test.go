package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// expiringIn is a timer that is due and expires after some time.
func expiringIn(id string, due, expires time.Duration) client.Timer {
	t := in(id, due)
	t.ExpiresAt = time.Now().Add(expires)
	return t
}

// TestTimersThatExpireWhileFiringIsPaused has a handler that asks for them, one with a
// transaction that asks for them, and one that does not ask.
func TestTimersThatExpireWhileFiringIsPaused(t *testing.T) {
	for name, c := range map[string]struct {
		register func(m *monolith, timers *app.Timers)
		want     map[timer.ServiceCallID]timer.State
	}{
		"asked for": {func(m *monolith, timers *app.Timers) {
			timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { m.due <- e; return nil }, app.OnDueOptions{Expired: true})
		}, map[timer.ServiceCallID]timer.State{"expires": timer.Expired, "lasts": timer.Reached, "never": timer.Reached}},
		"asked for, in a transaction": {func(m *monolith, timers *app.Timers) {
			timers.OnDueTx("", func(_ context.Context, _ *sql.Tx, e timer.DueTimeReached) error { m.due <- e; return nil }, app.OnDueOptions{Expired: true})
		}, map[timer.ServiceCallID]timer.State{"expires": timer.Expired, "lasts": timer.Reached, "never": timer.Reached}},
		"not asked for": {func(m *monolith, timers *app.Timers) {
			timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { m.due <- e; return nil }, app.OnDueOptions{})
		}, map[timer.ServiceCallID]timer.State{"lasts": timer.Reached, "never": timer.Reached}},
	} {
		t.Run(name, func(t *testing.T) {
			inMonolith(t, func(t *testing.T, m *monolith) {
				counters := new(app.Counters)
				timers, stop := m.runWith(app.Options{Counters: counters}, func(timers *app.Timers) { c.register(m, timers) })
				defer stop()
				if err := m.store.PauseFiring(t.Context(), timer.Pause{Since: time.Now(), By: "test"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if err := timers.Schedule(t.Context(), expiringIn("expires", time.Minute, time.Hour), expiringIn("lasts", time.Minute, time.Hour+time.Minute), in("never", time.Minute)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if e, err := timers.Get(t.Context(), keyOf("expires")); err != nil || e.State != timer.Scheduled {
					t.Errorf("while firing is paused: %+v, %v", e, err)
				}
				resumed := time.Now()
				if err := m.store.ResumeFiring(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				close(m.due)
				got := make(map[timer.ServiceCallID]timer.State)
				for e := range m.due {
					got[e.ServiceCallID] = e.State()
					if e.ReachedAt.Before(timer.RoundDown(resumed)) || e.ExpiresAt.IsZero() != (e.ServiceCallID == "never") {
						t.Errorf("%+v", e)
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("handled %v, want %v", got, c.want)
				}
				if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 0 || s.Parked != 0 || s.Reached != 2 || s.Expired != 1 {
					t.Errorf("%+v, %v", s, err)
				}
				if counters.Reached() != 2 || counters.Expired() != 1 || counters.Lateness().Events != 2 {
					t.Errorf("%d reached, %d expired, %d are late", counters.Reached(), counters.Expired(), counters.Lateness().Events)
				}
				if err := timers.Schedule(t.Context(), in("expires", time.Hour)); !errors.Is(err, timer.ErrExpired) {
					t.Errorf("scheduled again: %v", err)
				}
				if err := timers.Cancel(t.Context(), keyOf("expires")); !errors.Is(err, timer.ErrExpired) {
					t.Errorf("canceled: %v", err)
				}
				n, err := timers.CancelWhere(t.Context(), "acme", timer.Selection{Calls: []timer.ServiceCallID{"expires", "lasts"}})
				if err != nil || n != (timer.CancelCounts{Reached: 1, Expired: 1}) {
					t.Errorf("canceled %+v, %v", n, err)
				}
			})
		})
	}
}

// TestWhatExpiresTakesNoFireRate has more timers expire than may fire in half an hour.
func TestWhatExpiresTakesNoFireRate(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		limits, err := quota.New(quota.Config{Default: quota.Limits{Fire: quota.Rate{PerSecond: 0.1, Burst: 1}}}, timer.ClockFunc(time.Now), quota.Options{})
		if err != nil {
			t.Fatal(err)
		}
		timers, stop := m.run(app.Options{Quotas: limits})
		defer stop()
		var all []client.Timer
		for i := range 200 {
			all = append(all, expiringIn(fmt.Sprintf("order-%03d", i), -time.Hour, -time.Minute))
		}
		all = append(all, in("order-that-fires", -time.Second), in("order-that-waits", -time.Millisecond))
		began := time.Now()
		if err := timers.Schedule(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		if e := <-m.due; e.ServiceCallID != "order-that-fires" || time.Since(began) > time.Second {
			t.Errorf("%s after %v", e.ServiceCallID, time.Since(began))
		}
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Counts != (timer.Counts{Scheduled: 1, Reached: 1, Expired: 200}) {
			t.Errorf("%+v, %v", s.Counts, err)
		}
		if e := <-m.due; e.ServiceCallID != "order-that-waits" || time.Since(began) < 9*time.Second {
			t.Errorf("%s after %v", e.ServiceCallID, time.Since(began))
		}
	})
}
