package sqlite

import (
	"context"
	"database/sql"

	"github.com/event-service-agent/timer-service/timer"
)

// Firing returns the pause that the database keeps.
func (r *Reader) Firing(ctx context.Context) (p timer.Pause, err error) {
	var since sql.NullInt64
	err = r.reads.QueryRowContext(ctx, sqlFiring).Scan(&since, &p.By)
	p.Since = instant(since)
	return p, classify("read whether firing is paused", err)
}

// PauseFiring keeps a pause.
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	return s.writing(ctx, "pause firing", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlPause, p.Since.UnixMilli(), p.By)
		return err
	})
}

// ResumeFiring ends a pause.
func (s *Store) ResumeFiring(ctx context.Context) error {
	return s.writing(ctx, "resume firing", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlResume)
		return err
	})
}
