package postgres

import (
	"context"

	"github.com/event-service-agent/timer-service/timer"
)

// CheckRunning is one check of [Store.Watch].
func CheckRunning(ctx context.Context, s *Store) error { return s.check(ctx) }

// Trim is one call of trim that [Store.Watch] makes.
func (s *Store) Trim(ctx context.Context, from, last map[string]timer.Position) (map[string]timer.Position, error) {
	return s.trim(ctx, from, last)
}
