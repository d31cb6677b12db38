package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Schedule applies commands in one transaction, and those of one key in the order given.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	a := store.Schedule(now, commands)
	err := apply(ctx, s, a, 0, len(commands))
	if err == nil && len(commands) > 0 {
		s.watermark.set(earliest(commands))
	}
	return results(a, err)
}

// earliest returns the earliest due time of commands.
func earliest(commands []timer.ScheduleTimer) time.Time {
	return slices.MinFunc(commands, func(a, b timer.ScheduleTimer) int { return a.DueAt.Compare(b.DueAt) }).DueAt
}

// Cancel applies commands in one transaction, as Schedule does. If there is a foreign key and
// a service call does not exist, there is nothing to cancel.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	a := store.Cancel(now, commands)
	return results(a, apply(ctx, s, a, 0, len(commands)))
}
