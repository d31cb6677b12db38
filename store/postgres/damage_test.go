package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRowThatBreaksAConstraintStopsNoOther has a bit flip in a row so that no statement can
// change it any more.
func TestRowThatBreaksAConstraintStopsNoOther(t *testing.T) {
	t.Parallel()
	for constraint, damage := range map[string]string{
		"command_at_is_not_negative":     `command_at = command_at | (1::bigint << 63)`,
		"canceled_at_goes_with_canceled": `canceled_at = due_at`,
	} {
		t.Run(constraint, func(t *testing.T) {
			t.Parallel()
			s := open(t, pgtest.URL(t), relaxed)
			scheduled(t, s, "call-1", "call-2", "call-3")
			var is string
			must(t, s.DB().QueryRowContext(t.Context(), `SELECT pg_get_constraintdef(oid) FROM pg_constraint
				WHERE conrelid = 'timer_schedules'::regclass AND conname = $1`, constraint).Scan(&is))
			run(t, s.DB(), `ALTER TABLE timer_schedules DROP CONSTRAINT `+constraint,
				`UPDATE timer_schedules SET `+damage+` WHERE service_call_id = 'call-2'`,
				`ALTER TABLE timer_schedules ADD CONSTRAINT `+constraint+` `+is+` NOT VALID`)

			var fired []timer.ServiceCallID
			var err error
			for range 3 { // as the poller does
				if err = s.Update(t.Context(), func(tx timer.Tx) error {
					entries, err := tx.Reach(t.Context(), noon.Add(time.Second), 10, nil)
					for _, e := range entries {
						fired = append(fired, e.ServiceCallID)
					}
					return err
				}); err == nil {
					break
				}
				fired = nil
			}
			slices.Sort(fired)
			if err != nil || !slices.Equal(fired, []timer.ServiceCallID{"call-1", "call-3"}) {
				t.Errorf("fired %v, %v, want the other two", fired, err)
			}
			rows, err := s.Damaged(t.Context(), 0, 10)
			if err != nil || len(rows) != 1 || rows[0].ServiceCallID != "call-2" {
				t.Errorf("set aside: %+v, %v, want call-2", rows, err)
			}
			if c, err := s.Counts(t.Context(), "acme"); err != nil || c != (timer.Counts{Reached: 2}) {
				t.Errorf("counts: %+v, %v", c, err)
			}
		})
	}
}
