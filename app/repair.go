package app

import (
	"context"
	"errors"
	"slices"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// maxRepair is how many damaged timers are repaired at once.
const maxRepair = 1000

// repair schedules timers again whose rows were found damaged when they were due,
// until ctx is done. It reads all commands that the broker has again: what was
// damaged may be the key.
func (r *recovery) repair(ctx context.Context) error {
	last, logged := int64(0), ""
	for pause.For(ctx, r.repairInterval) {
		rows, err := r.store.Damaged(ctx, last, maxRepair)
		if err == nil && len(rows) > 0 {
			err = r.repairRows(ctx, rows)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errors.ErrUnsupported):
			<-ctx.Done()
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil && err.Error() != logged:
			logged = err.Error()
			r.log.WarnContext(ctx, "damaged timers not repaired, will retry", "error", err)
		case err == nil && len(rows) > 0:
			last = rows[len(rows)-1].Seq
		}
	}
	return nil
}

// repairRows applies the commands of damaged rows again, and forgets the rows whose timers
// are there then. A command is that of a row if its key is, or its id and due time are:
// no bit changes both. All others may be of timers that were purged or forgotten.
func (r *recovery) repairRows(ctx context.Context, rows []timer.DamagedRow) error {
	type version struct {
		id  string
		due int64
	}
	keys, versions := make(map[timer.Key]bool), make(map[version]bool)
	for _, row := range rows {
		keys[row.Key] = true
		versions[version{row.CommandID, row.DueAt.UnixMilli()}] = true
	}
	only := func(d *decoded) {
		d.schedules = slices.DeleteFunc(d.schedules, func(c timer.ScheduleTimer) bool {
			return !keys[c.Key] && !versions[version{c.CommandID, c.DueAt.UnixMilli()}]
		})
		d.cancels = slices.DeleteFunc(d.cancels, func(c timer.CancelTimer) bool { return !keys[c.Key] })
	}
	if err := r.commands(ctx, nil, only, func(map[string]int64, int, int64) {}); err != nil {
		return err
	}
	var repaired []int64
	for _, row := range rows {
		switch e, err := r.known(ctx, row.Key); {
		case err != nil:
			return err
		case e.State != "":
			repaired = append(repaired, row.Seq)
		}
	}
	r.sooner(r.clock.Now())
	r.log.WarnContext(ctx, "damaged timers were scheduled again by their commands, which the broker has", "repaired", len(repaired), "damaged", len(rows))
	if len(repaired) == 0 {
		return nil
	}
	_, err := r.store.DiscardDamaged(ctx, repaired...)
	return err
}
