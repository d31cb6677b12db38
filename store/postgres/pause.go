package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/timer"
)

// Firing returns the pause that the database keeps.
func (r *Reader) Firing(ctx context.Context) (p timer.Pause, err error) {
	err = r.seek(ctx, "read whether firing is paused", sqlFiring, nil, func(rows pgx.Rows) error {
		var since *time.Time
		err := rows.Scan(&since, &p.By)
		p.Since = instant(since)
		return err
	})
	return p, err
}

// PauseFiring keeps a pause.
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	return s.writing(ctx, "pause firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlPause, args: []any{p.Since, p.By}})
		return nil
	})
}

// ResumeFiring ends a pause.
func (s *Store) ResumeFiring(ctx context.Context) error {
	return s.writing(ctx, "resume firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlResume})
		return nil
	})
}
