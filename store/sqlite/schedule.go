package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// Schedule applies commands in one transaction.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	return apply(ctx, s, "schedule", commands, func(ctx context.Context, t *transaction, c timer.ScheduleTimer) (timer.Outcome, error) {
		return t.schedule(ctx, now, c)
	})
}

// Cancel applies commands in one transaction. Where a foreign key asks for a
// service call that there is not, there is nothing to take back.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	return apply(ctx, s, "cancel", commands, func(ctx context.Context, t *transaction, c timer.CancelTimer) (timer.Outcome, error) {
		return t.cancel(ctx, now, c)
	})
}

// apply applies commands one by one: a prepared statement of one row is as fast
// as one of many, and knows what the command did.
func apply[C any](
	ctx context.Context, s *Store, doing string, commands []C,
	one func(context.Context, *transaction, C) (timer.Outcome, error),
) ([]timer.Outcome, error) {
	outcomes := make([]timer.Outcome, len(commands))
	err := s.writing(ctx, doing, func(endless context.Context, t *transaction) (err error) {
		for i, c := range commands {
			if err = ctx.Err(); err != nil {
				return err
			}
			if outcomes[i], err = one(endless, t, c); err != nil {
				return err
			}
			failpoint.Here("applied")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

func (t *transaction) schedule(ctx context.Context, now time.Time, c timer.ScheduleTimer) (timer.Outcome, error) {
	args := [...]any{
		string(c.TenantID), string(c.ServiceCallID), c.TimestampMS, c.CommandID, timer.RoundUp(c.DueAt).UnixMilli(),
		text(c.CorrelationID), text(c.Trace.Parent), text(c.Trace.State), now.UnixMilli(),
	}
	changed, err := t.change(ctx, sqlScheduleNew, args[:]...)
	if err != nil {
		return 0, refused(c.Key, err)
	}
	if changed > 0 {
		return timer.DidSchedule, nil
	}
	before, err := t.standing(ctx, c.Key)
	if err != nil {
		return 0, err
	}
	if outcome := before.unchanged(c.Version); outcome != 0 {
		return outcome, nil
	}
	outcome := timer.DidReschedule
	if before.state == timer.Canceled {
		outcome = timer.DidSchedule
	}
	return outcome, t.mustChange(ctx, c.Key, sqlScheduleAgain, args[:8]...)
}

func (t *transaction) cancel(ctx context.Context, now time.Time, c timer.CancelTimer) (timer.Outcome, error) {
	args := [...]any{string(c.TenantID), string(c.ServiceCallID), c.TimestampMS, c.CommandID, now.UnixMilli()}
	changed, err := t.change(ctx, sqlCancel, args[:]...)
	switch {
	case isMissing(err):
		return timer.WasCanceled, nil
	case err != nil:
		return 0, refused(c.Key, err)
	case changed > 0:
		return timer.DidCancel, nil
	}
	before, err := t.standing(ctx, c.Key)
	if err != nil {
		return 0, err
	}
	if outcome := before.unchanged(c.Version); outcome != 0 {
		return outcome, nil
	}
	return timer.WasCanceled, t.mustChange(ctx, c.Key, sqlCancelAgain, args[:]...)
}

// mustChange runs a statement whose condition was found to hold.
func (t *transaction) mustChange(ctx context.Context, key timer.Key, text string, args ...any) error {
	changed, err := t.change(ctx, text, args...)
	if err == nil && changed == 0 {
		err = fmt.Errorf("%s: changed nothing, though nobody else can have changed it", key)
	}
	return refused(key, err)
}

// A standing is where a timer stands when a command meets it.
type standing struct {
	state   timer.State
	version timer.Version
}

func (t *transaction) standing(ctx context.Context, key timer.Key) (s standing, err error) {
	err = t.QueryRowContext(ctx, sqlStanding, string(key.TenantID), string(key.ServiceCallID)).
		Scan(&s.state, &s.version.TimestampMS, &s.version.CommandID)
	if errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("%s: neither there nor absent", key)
	}
	return s, err
}

// unchanged returns why a command of a version does nothing, or zero if it is
// newer and the timer has not fired.
func (s standing) unchanged(v timer.Version) timer.Outcome {
	switch {
	case v == s.version:
		return timer.WasSame
	case s.state == timer.Reached:
		return timer.WasReached
	case v.Compare(s.version) < 0:
		return timer.WasStale
	}
	return 0
}

// text is s as a column that may be null.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}
