package postgres

import (
	"context"
)

const (
	foldEvery  = 10     // seconds after which counts are folded, however few
	foldMany   = 5_000  // rows of counts that are folded at once
	foldBatch  = 20_000 // rows of counts that one transaction folds
	foldRounds = 10     // transactions that fold, one after the other
)

// Locks of a schema, as numbers beside those of the shards, which are 0 to 255.
const (
	lockMigrate = -1
	lockFold    = -2
	lockNumbers = -4 // -3 is in own.sql and alone.sql
	// -3 is that of alone.sql
)

// foldIfDue folds counts if there are many, or any and it is time.
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

// fold folds counts, unless another instance does: one is enough.
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
