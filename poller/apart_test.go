package poller_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// TestATimerThatCannotBeMarkedDelaysNoOtherTenant has a trigger of somebody's that refuses
// to change the timers of a tenant, or their events, until it is dropped.
func TestATimerThatCannotBeMarkedDelaysNoOtherTenant(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{
		"its row":   `CREATE TRIGGER host BEFORE UPDATE OF state ON timer_schedules WHEN NEW.tenant_id = 'refused' BEGIN SELECT RAISE(ABORT, 'not these'); END`,
		"its event": `CREATE TRIGGER host BEFORE INSERT ON timer_outbox WHEN CAST(NEW.payload AS TEXT) LIKE '%"refused"%' BEGIN SELECT RAISE(ABORT, 'not these'); END`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := open(t), time.Now().Truncate(time.Millisecond)
				due(t, s, "refused", 100, began, time.Second)
				due(t, s, "a", 100, began.Add(300*time.Millisecond), time.Second)
				due(t, s, "b", 100, began.Add(700*time.Millisecond), time.Second)
				if _, err := s.DB().ExecContext(t.Context(), trigger); err != nil {
					t.Fatal(err)
				}
				p, fired := poll(t, s, realClock, poller.Options{Interval: 5 * time.Second})
				for got := map[timer.TenantID]int{}; got["a"]+got["b"] < 200; {
					e := <-fired
					if got[e.TenantID]++; e.TenantID == "refused" {
						t.Fatalf("%s fired", e.Key)
					}
					if late := time.Since(e.DueAt); late > time.Second {
						t.Errorf("%s fired %v late", e.Key, late)
					}
				}
				if err := p.Status().Err; err == nil || !strings.Contains(err.Error(), "tenant refused") || !strings.Contains(err.Error(), "not these") {
					t.Errorf("the status has the error %v", err)
				}
				if _, err := s.DB().ExecContext(t.Context(), `DROP TRIGGER host`); err != nil {
					t.Fatal(err)
				}
				cured := time.Now()
				for range 100 {
					if e := <-fired; e.TenantID != "refused" {
						t.Errorf("%s fired again", e.Key)
					}
				}
				if took := time.Since(cured); took > 6*time.Second {
					t.Errorf("it took %v", took)
				}
				time.Sleep(11 * time.Second)
				if err := p.Status().Err; err != nil {
					t.Errorf("after the cure: %v", err)
				}
			})
		})
	}
}
