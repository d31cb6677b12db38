package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Track is to be built.
func (s *Store) Track(func() []timer.Position) {}

// Noted is to be built.
func (s *Store) Noted(context.Context) (timer.Noted, error) { return timer.Noted{}, nil }

// BeginRecovery is to be built.
func (s *Store) BeginRecovery(context.Context, time.Time) error { return errors.ErrUnsupported }

// Fired is to be built.
func (s *Store) Fired(context.Context, time.Duration, ...timer.DueTimeReached) (int, error) {
	return 0, errors.ErrUnsupported
}

// EndRecovery is to be built.
func (s *Store) EndRecovery(context.Context, []timer.Position) error { return errors.ErrUnsupported }

// Alone is to be built.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }
