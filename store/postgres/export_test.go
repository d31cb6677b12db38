package postgres

import "context"

// CheckRunning is one check of [Store.Watch].
func CheckRunning(ctx context.Context, s *Store) error { return s.check(ctx) }

// Trimmed is what calls of [Store.Trim] found.
type Trimmed = trimmed

// Trim is one call of trim that [Store.Watch] makes.
func (s *Store) Trim(ctx context.Context, found *Trimmed) error { return s.trim(ctx, found) }
