package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/timer"
)

// Schedule applies commands in one transaction, those of one key in the order
// given.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	results, err := schedule(ctx, s, now, commands)
	if err == nil && len(commands) > 0 {
		s.watermark.set(earliest(commands))
	}
	return results, err
}

// earliest returns the earliest due time of commands.
func earliest(commands []timer.ScheduleTimer) time.Time {
	return slices.MinFunc(commands, func(a, b timer.ScheduleTimer) int { return a.DueAt.Compare(b.DueAt) }).DueAt
}

// Cancel applies commands in one transaction, as Schedule does. Where a foreign
// key asks for a service call that does not exist, there is nothing to cancel.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return cancel(ctx, s, now, commands)
}

// An applier applies commands: in transactions of its own, or in another's.
type applier interface {
	apply(ctx context.Context, a application) ([]timer.Result, error)

	// together calls fn, which applies commands in several steps.
	together(ctx context.Context, fn func() ([]timer.Result, error)) ([]timer.Result, error)
}

// schedule applies commands, and those that are refused together one by one.
func schedule(ctx context.Context, to applier, now time.Time, commands []timer.ScheduleTimer) ([]timer.Result, error) {
	results, err := to.apply(ctx, application{
		doing:    "schedule",
		count:    len(commands),
		key:      func(i int) timer.Key { return commands[i].Key },
		receipts: func(results []timer.Result) []timer.Receipt { return timer.Receipts(commands, results, now) },
		meet: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			return before.Schedule(commands[i].Version)
		},
		absent: func(results []timer.Result, keys []*group) {
			for _, g := range keys {
				for _, i := range g.commands {
					results[i].Err = timer.Invalid(timer.ReasonRefused, "%s: there is no such service call", g.key)
				}
			}
			timer.RefuseTogether(commands, results)
		},
		insert: func(ctx context.Context, t *transaction, groups []*group) ([]int64, error) {
			c := columnsOf(groups, func(i int) *timer.ScheduleTimer { return &commands[i] })
			return t.numbers(ctx, sqlScheduleNew, c.tenants, c.calls, c.times, c.ids, c.due, c.correlations, c.parents, c.states, c.data, timer.RoundDown(now))
		},
		update: func(ctx context.Context, t *transaction, groups []*group) (changed int64, err error) {
			c := columnsOf(groups, func(i int) *timer.ScheduleTimer { return &commands[i] })
			places, canceled := placesOf(groups)
			err = t.rows(ctx, sqlScheduleAgain, []any{places, canceled, c.times, c.ids, c.due, c.correlations, c.parents, c.states, c.data}, scan(&changed))
			return changed, err
		},
	})
	if errors.Is(err, timer.ErrInvalid) {
		half := timer.MessageLen(commands)
		for next := half; 2*half < len(commands) && next < len(commands); next += timer.MessageLen(commands[next:]) {
			half = next
		}
		return to.together(ctx, func() ([]timer.Result, error) {
			return halves(commands, half, err, func(some []timer.ScheduleTimer) ([]timer.Result, error) { return schedule(ctx, to, now, some) })
		})
	}
	return results, err
}

// cancel is [schedule] for commands that cancel.
func cancel(ctx context.Context, to applier, now time.Time, commands []timer.CancelTimer) ([]timer.Result, error) {
	results, err := to.apply(ctx, application{
		doing:    "cancel",
		count:    len(commands),
		key:      func(i int) timer.Key { return commands[i].Key },
		receipts: func(results []timer.Result) []timer.Receipt { return timer.Receipts(commands, results, now) },
		meet: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			return before.Cancel(commands[i].Version)
		},
		absent: func(results []timer.Result, keys []*group) {
			for _, g := range keys {
				for _, i := range g.commands {
					results[i].Outcome = timer.WasCanceled
				}
			}
		},
		insert: func(ctx context.Context, t *transaction, groups []*group) ([]int64, error) {
			tenants, calls := keysOf(groups)
			times, ids := versionsOf(groups)
			return t.numbers(ctx, sqlCancelNew, tenants, calls, times, ids, timer.RoundDown(now))
		},
		update: func(ctx context.Context, t *transaction, groups []*group) (changed int64, err error) {
			times, ids := versionsOf(groups)
			places, canceled := placesOf(groups)
			err = t.rows(ctx, sqlCancelAgain, []any{places, canceled, times, ids, timer.RoundDown(now)}, scan(&changed))
			return changed, err
		},
	})
	if errors.Is(err, timer.ErrInvalid) {
		return to.together(ctx, func() ([]timer.Result, error) {
			return halves(commands, (len(commands)+1)/2, err, func(some []timer.CancelTimer) ([]timer.Result, error) { return cancel(ctx, to, now, some) })
		})
	}
	return results, err
}

// halves applies commands that the server refuses together in two steps, cut at half, and so on until one message is refused alone. Valid commands come
// here only if the host has given the table constraints or triggers of its own.
func halves[C any](commands []C, half int, refusal error, apply func([]C) ([]timer.Result, error)) ([]timer.Result, error) {
	if half == len(commands) {
		return slices.Repeat([]timer.Result{{Err: refusal}}, len(commands)), nil
	}
	first, err := apply(commands[:half])
	if err != nil {
		return nil, err
	}
	second, err := apply(commands[half:])
	return append(first, second...), err
}

// Columns are commands, field by field.
type columns struct {
	tenants, calls                []string
	times                         []int64
	ids                           []string
	due                           []time.Time
	correlations, parents, states []string
	data                          []string // nil if no command has any
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
		if winner.Data != "" {
			if c.data == nil {
				c.data = make([]string, len(groups))
			}
			c.data[n] = winner.Data
		}
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
