package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/timer"
)

var _ timer.Repairer = (*Store)(nil)

// intact reports whether a timer is as its command had it, as far as that is known.
func intact(e *timer.Entry, sum pgtype.Int4) bool { return !sum.Valid || sum.Int32 == e.Checksum() }

// setAside moves rows that a claim found damaged to timer_damaged.
func (t *transaction) setAside(c *claim) {
	if len(c.damaged) == 0 {
		return
	}
	t.later(step{text: sqlSetAside, args: []any{c.damaged, c.now}})
	t.damaged += len(c.damaged)
	c.damaged = nil
}

// broken is the code of a row that breaks a constraint.
const broken = "23514"

// setAsideBroken moves rows that are due and break a constraint to timer_damaged: those
// that a claim could not mark, and that kept all others from firing.
func (s *Store) setAsideBroken(ctx context.Context, due time.Time) error {
	return s.writing(ctx, "set damaged timers aside", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlBrokenRows, args: []any{due}, done: func(tag pgconn.CommandTag) { t.damaged += int(tag.RowsAffected()) }})
		return nil
	})
}

// errEarly says that an index has another due time than a row that matches its checksum.
func errEarly(e *timer.Entry) error {
	return fmt.Errorf("%w: timer %s is due at %v, and an index has it before: the index is damaged: run REINDEX TABLE timer_schedules, and check the disk",
		timer.ErrFatal, timer.Quote(e.Key.String()), e.DueAt)
}

// logDamaged logs the damaged timers of a transaction that was committed.
func (t *transaction) logDamaged(ctx context.Context) {
	if t.damaged > 0 {
		t.store.opt.Log.ErrorContext(ctx, "damaged timers were set aside, and do not fire: check the disk of the server", "timers", t.damaged)
	}
}

// Damaged returns a page of damaged rows.
func (r *Reader) Damaged(ctx context.Context, after int64, limit int) (damaged []timer.DamagedRow, err error) {
	err = r.rows(ctx, "list damaged timers", sqlDamaged, []any{after, int64(timer.PageSize(limit))}, func(rows pgx.Rows) error {
		var d timer.DamagedRow
		var due *time.Time
		err := rows.Scan(&d.Seq, (*string)(&d.TenantID), (*string)(&d.ServiceCallID), &due, &d.TimestampMS, &d.CommandID, &d.FoundAt)
		d.DueAt, d.FoundAt = instant(due), d.FoundAt.UTC()
		damaged = append(damaged, d)
		return err
	})
	return damaged, err
}

// DiscardDamaged deletes damaged rows.
func (s *Store) DiscardDamaged(ctx context.Context, seqs ...int64) (discarded int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	return s.deleting(ctx, "discard damaged timers", sqlDiscardDamaged, seqs)
}
