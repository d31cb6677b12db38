package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/timer"
)

// Schedule applies commands in one transaction. Those of one key are applied in
// the order given.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	now = timer.RoundDown(now)
	outcomes, err := s.apply(ctx, application{
		doing: "schedule",
		count: len(commands),
		key:   func(i int) timer.Key { return commands[i].Key },
		meet: func(before timer.Standing, i int) (timer.Standing, timer.Outcome) {
			return before.Schedule(commands[i].Version)
		},
		insert: func(ctx context.Context, t *transaction, groups []*group) ([]int64, error) {
			c := columnsOf(groups, func(i int) *timer.ScheduleTimer { return &commands[i] })
			return t.numbers(ctx, sqlScheduleNew, c.tenants, c.calls, c.times, c.ids, c.due, c.correlations, c.parents, c.states, now)
		},
		update: func(ctx context.Context, t *transaction, groups []*group) (changed int64, err error) {
			c := columnsOf(groups, func(i int) *timer.ScheduleTimer { return &commands[i] })
			places, canceled := placesOf(groups)
			err = t.rows(ctx, sqlScheduleAgain, []any{places, canceled, c.times, c.ids, c.due, c.correlations, c.parents, c.states}, scan(&changed))
			return changed, err
		},
	})
	if err == nil && len(commands) > 0 {
		s.floor.set(slices.MinFunc(commands, func(a, b timer.ScheduleTimer) int { return a.DueAt.Compare(b.DueAt) }).DueAt)
	}
	return outcomes, err
}

// Cancel applies commands in one transaction, as Schedule does. Where a foreign
// key asks for a service call that there is not, there is nothing to take back.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	now = timer.RoundDown(now)
	canceling := application{
		doing: "cancel",
		count: len(commands),
		key:   func(i int) timer.Key { return commands[i].Key },
		meet: func(before timer.Standing, i int) (timer.Standing, timer.Outcome) {
			return before.Cancel(commands[i].Version)
		},
		insert: func(ctx context.Context, t *transaction, groups []*group) ([]int64, error) {
			tenants, calls := keysOf(groups)
			times, ids := versionsOf(groups)
			return t.numbers(ctx, sqlCancelNew, tenants, calls, times, ids, now)
		},
		update: func(ctx context.Context, t *transaction, groups []*group) (changed int64, err error) {
			times, ids := versionsOf(groups)
			places, canceled := placesOf(groups)
			err = t.rows(ctx, sqlCancelAgain, []any{places, canceled, times, ids, now}, scan(&changed))
			return changed, err
		},
	}
	outcomes, err := s.apply(ctx, canceling)
	if isMissing(err) {
		canceling.orphan = timer.WasCanceled
		outcomes, err = s.apply(ctx, canceling)
	}
	return outcomes, err
}

// Columns are commands, field by field.
type columns struct {
	tenants, calls                []string
	times                         []int64
	ids                           []string
	due                           []time.Time
	correlations, parents, states []string
}

// columnsOf returns of each group the command that made the timer what it is now.
func columnsOf(groups []*group, command func(i int) *timer.ScheduleTimer) columns {
	n := len(groups)
	c := columns{due: make([]time.Time, n), correlations: make([]string, n), parents: make([]string, n), states: make([]string, n)}
	c.tenants, c.calls = keysOf(groups)
	c.times, c.ids = versionsOf(groups)
	for n, g := range groups {
		winner := command(g.winner)
		c.due[n] = timer.RoundUp(winner.DueAt)
		c.correlations[n], c.parents[n], c.states[n] = winner.CorrelationID, winner.Trace.Parent, winner.Trace.State
	}
	return c
}

func keysOf(groups []*group) (tenants, calls []string) {
	tenants, calls = make([]string, len(groups)), make([]string, len(groups))
	for n, g := range groups {
		tenants[n], calls[n] = string(g.key.TenantID), string(g.key.ServiceCallID)
	}
	return tenants, calls
}

func versionsOf(groups []*group) (times []int64, ids []string) {
	times, ids = make([]int64, len(groups)), make([]string, len(groups))
	for n, g := range groups {
		times[n], ids[n] = g.after.Version.TimestampMS, g.after.Version.CommandID
	}
	return times, ids
}

func placesOf(groups []*group) (places []pgtype.TID, canceled []bool) {
	places, canceled = make([]pgtype.TID, len(groups)), make([]bool, len(groups))
	for n, g := range groups {
		places[n], canceled[n] = g.place, g.before.State == timer.Canceled
	}
	return places, canceled
}
