package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// errPurged says that a timer existed and was purged before it could be locked.
var errPurged = errors.New("a timer was purged meanwhile")

// applyTries is how often an application starts over because timers were purged meanwhile.
const applyTries = 20

// apply applies commands, each step in a transaction. The error wraps [timer.ErrLocked] if
// another transaction holds one of their timers for longer than the time of lock_briefly.sql.
// The caller tries again. Until the commands are applied no instance fires these timers, nor for
// two seconds after that, so that the poller is not faster when the lock ends: another command
// for one of them may wait, too.
func (s *Store) apply(ctx context.Context, a *store.Application) ([]timer.Result, error) {
	return a.Apply(func(first, end int) error {
		err := s.repeat(func() error {
			return s.writing(ctx, a.Doing, func(ctx context.Context, t *transaction) error {
				var kept bool // some timers from firing, by any instance
				t.later(step{text: sqlLockBriefly, each: store.Scan(&kept)})
				err := t.apply(ctx, a, first, end)
				failpoint.Here("applied")
				if kept {
					t.later(step{text: sqlAwaited, args: []any{a.Keys(first, end)}})
				}
				return err
			})
		})
		if errors.Is(err, timer.ErrLocked) {
			err = errors.Join(err, s.writing(ctx, "keep timers from firing", func(ctx context.Context, t *transaction) error {
				return t.now(ctx, step{text: sqlAwait, args: []any{a.Keys(first, end)}})
			}))
		}
		return err
	}, nil)
}

// repeat calls try, and calls it again if a timer was purged meanwhile, or if a service call is
// missing for the first time: from then on they are looked up first. A timer that is missing
// each time was not purged, but never written.
func (s *Store) repeat(try func() error) (err error) {
	for range applyTries {
		err = try()
		if isMissing(err) {
			s.referenced.Store(true)
		} else if !errors.Is(err, errPurged) {
			return err
		}
	}
	if errors.Is(err, errPurged) {
		err = store.ErrDropped
	}
	return err
}

// apply applies commands in a transaction, and appends the receipts that they ask for.
//
// It takes three steps. Each is one statement for all keys. First, keys that have no timer
// get one, in the order of the keys. A transaction that inserts the same key at the same time
// waits here until the other one ends, and finds that the key exists if the other one
// commits. Second, the timers of existing keys are locked, in the order of the keys, and read
// as they are then, after any Reach, Purge or command that was changing them. From here on no
// other transaction can change them: a Reach and a Purge skip them. Third, the decisions
// about them are written.
//
// There is no deadlock. A transaction that waits in the first step holds only keys before the
// one that it waits for. The transaction that it waits for is in the same step at a later
// key, or waits in the second step for a later key, or does not wait at all. The same holds
// for the second step. If a timer no longer exists when the second step locks it, it was purged
// after the first step. Then the three steps start over in a new transaction, or savepoint,
// because going back to the first step with locks would break that order. In the transaction
// of a host, which may have locked other keys before, deadlocks are possible, as between any
// two transactions of a host.
func (t *transaction) apply(ctx context.Context, a *store.Application, first, end int) error {
	groups := a.Groups(first, end)
	if t.store.referenced.Load() {
		existing, err := t.numbers(ctx, sqlParents, store.Keys(groups))
		if err != nil {
			return err
		}
		groups = a.RefuseAbsent(groups, existing)
	}
	if err := t.put(ctx, a, groups); err != nil {
		return err
	}
	return t.EmitReceipts(ctx, a.Receipts(first, end)...)
}

// put runs the three steps.
func (t *transaction) put(ctx context.Context, a *store.Application, groups []*store.Group) error {
	if len(groups) == 0 {
		return nil
	}
	fresh := a.Decide(groups)
	numbers, err := t.numbers(ctx, sqlNew, store.JSON(a.Rows(fresh)))
	if err != nil || len(numbers) == 0 && len(fresh) == len(groups) {
		return refused(err, groups)
	}
	exist := make(map[*store.Group]bool, len(numbers))
	for _, n := range numbers {
		exist[fresh[n-1]] = true
	}
	known, err := t.status(ctx, groups, exist)
	if err != nil {
		return err
	}
	changed := a.Decide(known)
	if len(changed) == 0 {
		return nil
	}
	n := 0
	err = t.rows(ctx, sqlAgain[a.Kind], []any{store.JSON(a.Rows(changed))}, store.Scan(&n))
	if err == nil && n != len(changed) { // though no other transaction can have changed them
		err = store.ErrDropped
	}
	return refused(err, changed)
}

// status locks the timers of groups that exist, and of groups whose commands add none, and reads
// the status of each.
func (t *transaction) status(ctx context.Context, groups []*store.Group, exist map[*store.Group]bool) ([]*store.Group, error) {
	known := slices.DeleteFunc(slices.Clone(groups), func(g *store.Group) bool { return g.After != g.Before && !exist[g] })
	err := t.rows(ctx, sqlStatus, []any{store.Keys(known)}, func(row store.Scanner) error {
		var n int64
		var place string
		var at timer.Status
		if err := row.Scan(&n, &place, (*string)(&at.State), &at.Version.TimestampMS, &at.Version.CommandID); err != nil {
			return fmt.Errorf("read where a timer stands: %w", err)
		}
		known[n-1].Before, known[n-1].Place = at, place
		return nil
	})
	if err != nil {
		return nil, err
	}
	missing := func(g *store.Group) bool { return g.Place == "" }
	if slices.ContainsFunc(known, func(g *store.Group) bool { return missing(g) && exist[g] }) {
		return nil, errPurged
	}
	return slices.DeleteFunc(known, missing), nil
}

// Schedule applies commands in one transaction, and those of one key in the order given.
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	results, err := s.apply(ctx, store.Schedule(now, commands))
	if err == nil && len(commands) > 0 {
		s.watermark.set(earliest(commands))
	}
	return results, err
}

// earliest returns the earliest due time of commands.
func earliest(commands []timer.ScheduleTimer) time.Time {
	return slices.MinFunc(commands, func(a, b timer.ScheduleTimer) int { return a.DueAt.Compare(b.DueAt) }).DueAt
}

// Cancel applies commands in one transaction, as Schedule does. If there is a foreign key and
// a service call does not exist, there is nothing to cancel.
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return s.apply(ctx, store.Cancel(now, commands))
}

const (
	foldInterval = 10 * time.Second // after which counts are folded, however few they are
	foldBatch    = 100_000          // the most rows of counts that one transaction folds
)

// The locks of a schema have numbers outside those of the shards, which are 0 to 255.
const (
	lockMigrate = -1
	lockFold    = -2
	lockNumbers = -4 // own.sql and alone.sql use -3
)

// foldAny folds counts, if there are any to fold: an idle service writes nothing. It returns
// how many rows it folded.
func (s *Store) foldAny(ctx context.Context) (all int64, err error) {
	var fresh bool
	if err := s.seek(ctx, "read the counts", sqlFresh, nil, store.Scan(&fresh)); err != nil || !fresh {
		return 0, err
	}
	for {
		folded, err := s.fold(ctx)
		if all += folded; err != nil || folded < foldBatch {
			return all, err
		}
	}
}

// fold folds counts, unless another instance is folding them. It returns how many rows.
func (s *Store) fold(ctx context.Context) (folded int64, err error) {
	err = s.writing(ctx, "fold the counts", func(ctx context.Context, t *transaction) error {
		var taken bool
		if err := t.rows(ctx, sqlTryLock, []any{int32(lockFold)}, store.Scan(&taken)); err != nil || !taken {
			return err
		}
		return t.rows(ctx, sqlFold, []any{int64(foldBatch)}, store.Scan(&folded))
	})
	return folded, err
}
