package postgres

import (
	"context"
)

const (
	foldEvery  = 10     // seconds after which counts are folded, however few they are
	foldMany   = 5_000  // rows of counts that make a fold start at once
	foldBatch  = 20_000 // rows of counts that one transaction folds at most
	foldRounds = 10     // transactions that fold one after the other, at most
)

// The locks of a schema have numbers beside those of the shards, which are 0 to 255.
const (
	lockMigrate = -1
	lockFold    = -2
	lockNumbers = -4 // own.sql and alone.sql use -3
)

// foldIfDue folds counts if there are foldMany of them, or, if time is set, if there are any.
func (s *Store) foldIfDue(ctx context.Context, time bool) error {
	least := int64(foldMany)
	if time {
		least = 1
	}
	for range foldRounds {
		var fresh int64
		if err := s.rows(ctx, "read the counts", sqlFresh, []any{least}, scan(&fresh)); err != nil || fresh < least {
			return err
		}
		if err := s.fold(ctx); err != nil {
			return err
		}
		least = foldMany
	}
	return nil
}

// fold folds counts, unless another instance is folding them.
func (s *Store) fold(ctx context.Context) error {
	return s.writing(ctx, "fold the counts", func(ctx context.Context, t *transaction) error {
		var taken bool
		if err := t.rows(ctx, sqlTryLock, []any{int32(lockFold)}, scan(&taken)); err != nil || !taken {
			return err
		}
		t.later(step{text: sqlFold, args: []any{int64(foldBatch)}})
		return nil
	})
}
