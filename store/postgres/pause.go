package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/timer"
)

// Firing returns the pauses that the database keeps.
func (r *Reader) Firing(ctx context.Context, now time.Time) (timer.Pauses, error) {
	pauses := make(timer.Pauses)
	err := r.seek(ctx, "read whether firing is paused", sqlFiring, []any{now}, func(rows pgx.Rows) error {
		var p timer.Pause
		var until *time.Time
		err := rows.Scan((*string)(&p.TenantID), &p.Since, &until, &p.By)
		p.Since, p.Until = p.Since.UTC(), instant(until)
		pauses[p.TenantID] = p
		return err
	})
	return pauses, err
}

// PauseFiring stores a pause.
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	var until *time.Time
	if !p.Until.IsZero() {
		until = &p.Until
	}
	return s.writing(ctx, "pause firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlPause, args: []any{string(p.TenantID), p.Since, until, p.By}})
		return nil
	})
}

// ResumeFiring ends a pause.
func (s *Store) ResumeFiring(ctx context.Context, tenant timer.TenantID) error {
	return s.writing(ctx, "resume firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlResume, args: []any{string(tenant)}})
		return nil
	})
}
