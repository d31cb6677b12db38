package postgres

import "context"

// CheckRunning is one check of [Store.Watch].
func CheckRunning(ctx context.Context, s *Store) error { return s.check(ctx) }
