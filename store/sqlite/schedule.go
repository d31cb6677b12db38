package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Schedule applies commands in one transaction.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	outcomes := make([]timer.Outcome, 0, len(commands))
	err := s.writing(ctx, "schedule", func(t *transaction) error {
		for len(commands) > 0 {
			n := min(len(commands), chunk)
			some, err := t.schedule(ctx, now, commands[:n])
			if err != nil {
				return err
			}
			outcomes, commands = append(outcomes, some...), commands[n:]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// schedule applies a chunk of commands. A full one takes one statement, if each
// of its keys is new or may change; else it is undone and goes row by row, to
// find out what each command did.
func (t *transaction) schedule(ctx context.Context, now time.Time, commands []timer.ScheduleTimer) ([]timer.Outcome, error) {
	if len(commands) == chunk {
		all, err := t.scheduleNew(ctx, now, commands)
		if err != nil || all != nil {
			return all, err
		}
	}
	outcomes := make([]timer.Outcome, len(commands))
	for i, c := range commands {
		before, err := t.standing(ctx, c.Key)
		if err != nil {
			return nil, err
		}
		if outcomes[i] = before.scheduled(c.Version); outcomes[i] > timer.DidReschedule {
			continue
		}
		if _, err := t.ExecContext(ctx, sqlSchedule, scheduleArgs(nil, now, c)...); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	return outcomes, nil
}

// scheduleNew applies commands whose keys are all new, or returns nil.
func (t *transaction) scheduleNew(ctx context.Context, now time.Time, commands []timer.ScheduleTimer) ([]timer.Outcome, error) {
	var last int64
	if err := t.QueryRowContext(ctx, `SELECT coalesce(max(rowid), 0) FROM timer_schedules`).Scan(&last); err != nil {
		return nil, err
	}
	args := make([]any, 0, scheduleColumns*len(commands))
	for _, c := range commands {
		args = scheduleArgs(args, now, c)
	}
	if _, err := t.ExecContext(ctx, `SAVEPOINT chunk`); err != nil {
		return nil, err
	}
	if _, err := t.ExecContext(ctx, sqlScheduleChunk, args...); err != nil {
		return nil, err
	}
	var inserted int
	if err := t.QueryRowContext(ctx, `SELECT count(*) FROM timer_schedules WHERE rowid > ?`, last).Scan(&inserted); err != nil {
		return nil, err
	}
	if inserted < len(commands) {
		_, err := t.ExecContext(ctx, `ROLLBACK TO chunk; RELEASE chunk`)
		return nil, err
	}
	outcomes := make([]timer.Outcome, len(commands))
	for i := range outcomes {
		outcomes[i] = timer.DidSchedule
	}
	_, err := t.ExecContext(ctx, `RELEASE chunk`)
	return outcomes, err
}

const scheduleColumns = 9

func scheduleArgs(args []any, now time.Time, c timer.ScheduleTimer) []any {
	return append(args, string(c.TenantID), string(c.ServiceCallID), text(c.CorrelationID), timer.RoundUp(c.DueAt).UnixMilli(),
		now.UnixMilli(), c.TimestampMS, c.CommandID, text(c.Trace.Parent), text(c.Trace.State))
}

// Cancel applies commands in one transaction. Where a foreign key asks for a
// service call that there is not, there is nothing to take back.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	outcomes := make([]timer.Outcome, len(commands))
	err := s.writing(ctx, "cancel", func(t *transaction) error {
		for i, c := range commands {
			before, err := t.standing(ctx, c.Key)
			if err != nil {
				return err
			}
			if outcomes[i] = before.canceled(c.Version); outcomes[i] != timer.DidCancel && outcomes[i] != timer.WasCanceled {
				continue
			}
			_, err = t.ExecContext(ctx, sqlCancel, string(c.TenantID), string(c.ServiceCallID), now.UnixMilli(), c.TimestampMS, c.CommandID)
			switch err = classify(c.Key.String(), err); {
			case isRefused(err):
				outcomes[i] = timer.WasCanceled
			case err != nil:
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// A standing is where a timer stands before a command: its state, empty if there
// is none, and its version.
type standing struct {
	state   timer.State
	version timer.Version
}

func (t *transaction) standing(ctx context.Context, key timer.Key) (s standing, err error) {
	rows, err := t.QueryContext(ctx, sqlStanding, string(key.TenantID), string(key.ServiceCallID))
	if err != nil {
		return s, err
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&s.state, &s.version.TimestampMS, &s.version.CommandID)
	}
	if err != nil {
		return s, err
	}
	return s, rows.Err()
}

// unchanged returns why a command of a version does nothing, or zero.
func (s standing) unchanged(v timer.Version) timer.Outcome {
	switch {
	case s.state == "":
		return 0
	case v == s.version:
		return timer.WasSame
	case s.state == timer.Reached:
		return timer.WasReached
	case v.Compare(s.version) < 0:
		return timer.WasStale
	}
	return 0
}

// scheduled returns what a ScheduleTimer does.
func (s standing) scheduled(v timer.Version) timer.Outcome {
	if o := s.unchanged(v); o != 0 {
		return o
	}
	if s.state == timer.Scheduled {
		return timer.DidReschedule
	}
	return timer.DidSchedule
}

// canceled returns what a CancelTimer does.
func (s standing) canceled(v timer.Version) timer.Outcome {
	if o := s.unchanged(v); o != 0 {
		return o
	}
	if s.state == timer.Canceled {
		return timer.WasCanceled
	}
	return timer.DidCancel
}

// text is s as a column that may be null.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}
