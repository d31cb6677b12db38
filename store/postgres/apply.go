package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// An application is commands that are applied in one transaction.
//
// It goes in three steps, each a statement for all keys. First, keys that have no
// timer get one, in the order of the keys. A transaction that inserts the same key
// at the same time waits here until the other one ends, and finds the key known if
// that commits. Second, the timers of known keys are locked, in the order of the
// keys, and read as they are then: what a Reach, a Purge or another command was
// changing is changed. From here on no other transaction can change them: a Reach
// and a Purge skip them. Third, what was decided about them is written.
//
// There is no deadlock. A transaction that waits in the first step holds only keys
// before the one that it waits for, and the transaction that it waits for is in the
// same step, at a later key, or waits in the second for a later key, or does not
// wait at all. The same holds for the second step. If a timer is gone when it is to
// be locked, it was purged after the first step: then all begins again in a new
// transaction, or savepoint, since going back to the first step with locks would break
// that order. In the transaction of a host, which may have locked other keys before,
// there may be deadlocks, as with any two transactions of a host.
type application struct {
	doing string
	count int                   // of commands
	key   func(i int) timer.Key // of a command
	meet  func(before timer.Status, i int) (after timer.Status, _ timer.Outcome)

	insert func(context.Context, *transaction, []*group) (known []int64, err error) // numbers of groups, from 1
	update func(context.Context, *transaction, []*group) (changed int64, err error)

	receipts func([]timer.Result) []timer.Receipt

	// absent sets the results of commands whose service calls do not exist.
	absent func(results []timer.Result, keys []*group)
}

// A group is the commands of one key.
type group struct {
	key           timer.Key
	commands      []int        // in the order given
	winner        int          // the last one that changed the timer; -1 if none did
	before, after timer.Status // of the timer
	place         pgtype.TID   // of a known timer
}

// errPurged says that a timer was there, and then not.
var errPurged = errors.New("a timer was purged meanwhile")

// applyTries is how often an application begins, if timers are purged meanwhile.
const applyTries = 20

// apply applies commands in one transaction. The error wraps [timer.ErrLocked] if
// another one holds one of their timers for longer than the lock_timeout of
// settings.sql.
func (s *Store) apply(ctx context.Context, a application) ([]timer.Result, error) {
	return s.repeat(a, func(referenced bool, results []timer.Result) error {
		return s.noting(ctx, a.doing, func(ctx context.Context, t *transaction) error {
			err := a.all(ctx, t, referenced, results)
			failpoint.Here("applied")
			return err
		})
	})
}

// together calls fn: each step has a transaction of its own.
func (s *Store) together(_ context.Context, fn func() ([]timer.Result, error)) ([]timer.Result, error) {
	return fn()
}

// repeat calls try, again if a timer was purged meanwhile. When the server has refused
// a command for the first time because it has no service call, all are applied again,
// and from then on the service calls are looked up before.
func (s *Store) repeat(a application, try func(referenced bool, results []timer.Result) error) (results []timer.Result, err error) {
	for range applyTries {
		results = make([]timer.Result, a.count)
		referenced := s.referenced.Load()
		err = try(referenced, results)
		if !referenced && isMissing(err) {
			s.referenced.Store(true)
		} else if !errors.Is(err, errPurged) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// all applies the commands, and appends the receipts of those that want one.
func (a application) all(ctx context.Context, t *transaction, referenced bool, results []timer.Result) error {
	if err := a.run(ctx, t, referenced, results); err != nil {
		return err
	}
	return t.EmitReceipts(ctx, a.receipts(results)...)
}

// groups sorts the commands that have no result yet by key.
func (a application) groups(results []timer.Result) (groups []*group) {
	order := make([]int, 0, a.count)
	for i, r := range results {
		if r.Outcome == 0 && r.Err == nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return a.key(i).Compare(a.key(j)) })
	for _, i := range order {
		if n := len(groups); n > 0 && groups[n-1].key == a.key(i) {
			groups[n-1].commands = append(groups[n-1].commands, i)
			continue
		}
		groups = append(groups, &group{key: a.key(i), commands: []int{i}})
	}
	return groups
}

func (a application) run(ctx context.Context, t *transaction, referenced bool, results []timer.Result) error {
	groups := a.groups(results)
	if referenced {
		absent, err := t.absent(ctx, groups)
		if err != nil {
			return err
		}
		if len(absent) > 0 {
			a.absent(results, absent)
			groups = a.groups(results)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	for _, g := range groups {
		a.decide(g, results)
	}
	numbers, err := a.insert(ctx, t, groups)
	if err != nil || len(numbers) == 0 {
		return refused(err, groups)
	}
	known, err := t.status(ctx, groups, numbers)
	if err != nil {
		return err
	}
	var changed []*group
	for _, g := range known {
		if a.decide(g, results); g.winner >= 0 {
			changed = append(changed, g)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	n, err := a.update(ctx, t, changed)
	if err == nil && n != int64(len(changed)) {
		err = fmt.Errorf("%d of %d timers were changed, though no other transaction can have changed them", n, len(changed))
	}
	return refused(err, changed)
}

// decide applies the commands of a key to where its timer stands.
func (a application) decide(g *group, results []timer.Result) {
	g.after, g.winner = g.before, -1
	for _, i := range g.commands {
		next, outcome := a.meet(g.after, i)
		if results[i].Outcome = outcome; next != g.after {
			g.after, g.winner = next, i
		}
	}
}

// absent returns the groups whose service calls do not exist. The service calls
// of the others are locked, so that they stay until the transaction ends.
func (t *transaction) absent(ctx context.Context, groups []*group) (absent []*group, err error) {
	tenants, calls := keysOf(groups)
	numbers, err := t.numbers(ctx, sqlParents, tenants, calls)
	if err != nil || len(numbers) == len(groups) {
		return nil, err
	}
	exists := make([]bool, len(groups))
	for _, n := range numbers {
		exists[n-1] = true
	}
	for n, g := range groups {
		if !exists[n] {
			absent = append(absent, g)
		}
	}
	return absent, nil
}

// status locks the timers of groups and reads the status of each.
func (t *transaction) status(ctx context.Context, groups []*group, numbers []int64) ([]*group, error) {
	slices.Sort(numbers)
	known := make([]*group, len(numbers))
	for i, n := range numbers {
		known[i] = groups[n-1]
	}
	tenants, calls := keysOf(known)
	found := 0
	err := t.rows(ctx, sqlStatus, []any{tenants, calls}, func(rows pgx.Rows) error {
		var n int64
		var place pgtype.TID
		var at timer.Status
		if err := rows.Scan(&n, &place, (*string)(&at.State), &at.Version.TimestampMS, &at.Version.CommandID); err != nil {
			return fmt.Errorf("read where a timer stands: %w", err)
		}
		known[n-1].before, known[n-1].place = at, place
		found++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found < len(known) {
		return nil, errPurged
	}
	return known, nil
}
