package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Firing returns the pauses that the database keeps.
func (r *Reader) Firing(ctx context.Context, now time.Time) (timer.Pauses, error) {
	pauses := make(timer.Pauses)
	err := r.rows(ctx, "read whether firing is paused", func(rows *sql.Rows) error {
		var p timer.Pause
		var since, until sql.NullInt64
		err := rows.Scan((*string)(&p.TenantID), &since, &until, &p.By)
		p.Since, p.Until = instant(since), instant(until)
		pauses[p.TenantID] = p
		return err
	}, sqlFiring, now.UnixMilli())
	return pauses, err
}

// PauseFiring keeps a pause.
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	return s.writing(ctx, "pause firing", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlPause, string(p.TenantID), p.Since.UnixMilli(), sql.NullInt64{Int64: p.Until.UnixMilli(), Valid: !p.Until.IsZero()}, p.By)
		return err
	})
}

// ResumeFiring ends a pause.
func (s *Store) ResumeFiring(ctx context.Context, tenant timer.TenantID) error {
	return s.writing(ctx, "resume firing", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlResume, string(tenant))
		return err
	})
}
