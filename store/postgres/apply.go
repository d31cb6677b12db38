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
// timer get one, in the order of the keys. Whoever inserts the same key at the same
// time waits here until the other transaction ends, and finds the key known if that
// commits. Second, the timers of known keys are locked, in the order of the keys,
// and read as they are then: what a Reach, a Purge or another command was changing
// is changed. From here on nobody else can change them: a Reach and a Purge pass
// them by. Third, what was decided about them is written.
//
// Nobody waits in a circle. Who waits in the first step holds only keys before the
// one that he waits for, and those whom he waits for are in the same step, at a
// later key, or wait in the second for a later key, or do not wait at all. The same
// holds for the second step. If a timer is gone when it is to be locked, it was
// purged after the first step: then all begins again in a new transaction, since
// going back to the first step would break that order.
type application struct {
	doing string
	count int                   // of commands
	key   func(i int) timer.Key // of a command
	meet  func(before timer.Standing, i int) (after timer.Standing, _ timer.Outcome)

	insert func(context.Context, *transaction, []*group) (known []int64, err error) // numbers of groups, from 1
	update func(context.Context, *transaction, []*group) (changed int64, err error)

	orphan timer.Outcome // of commands without a service call; they are looked for if it is set
}

// A group is the commands of one key.
type group struct {
	key           timer.Key
	commands      []int          // in the order given
	winner        int            // the last one that changed the timer; -1 if none did
	before, after timer.Standing // of the timer
	place         pgtype.TID     // of a known timer
}

// errPurged says that a timer was there, and then not.
var errPurged = errors.New("a timer was purged meanwhile")

// applyTries is how often an application begins, if timers are purged meanwhile.
const applyTries = 5

func (s *Store) apply(ctx context.Context, a application) (outcomes []timer.Outcome, err error) {
	for range applyTries {
		outcomes = make([]timer.Outcome, a.count)
		groups := a.groups()
		err = s.writing(ctx, a.doing, func(ctx context.Context, t *transaction) error {
			err := a.run(ctx, t, groups, outcomes)
			failpoint.Here("applied")
			return err
		})
		if !errors.Is(err, errPurged) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// groups sorts the commands by key.
func (a application) groups() (groups []*group) {
	order := make([]int, a.count)
	for i := range order {
		order[i] = i
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

func (a application) run(ctx context.Context, t *transaction, groups []*group, outcomes []timer.Outcome) (err error) {
	if a.orphan != 0 {
		if groups, err = a.withParents(ctx, t, groups, outcomes); err != nil {
			return err
		}
	}
	if len(groups) == 0 {
		return nil
	}
	for _, g := range groups {
		a.decide(g, outcomes)
	}
	numbers, err := a.insert(ctx, t, groups)
	if err != nil || len(numbers) == 0 {
		return refused(err, groups)
	}
	known, err := t.standing(ctx, groups, numbers)
	if err != nil {
		return err
	}
	var changed []*group
	for _, g := range known {
		if a.decide(g, outcomes); g.winner >= 0 {
			changed = append(changed, g)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	n, err := a.update(ctx, t, changed)
	if err == nil && n != int64(len(changed)) {
		err = fmt.Errorf("%d of %d timers were changed, though nobody else can have changed them", n, len(changed))
	}
	return refused(err, changed)
}

// decide applies the commands of a key to where its timer stands.
func (a application) decide(g *group, outcomes []timer.Outcome) {
	g.after, g.winner = g.before, -1
	for _, i := range g.commands {
		next, outcome := a.meet(g.after, i)
		if outcomes[i] = outcome; next != g.after {
			g.after, g.winner = next, i
		}
	}
}

// withParents sets the outcomes of commands that have no service call, and
// returns the others.
func (a application) withParents(ctx context.Context, t *transaction, groups []*group, outcomes []timer.Outcome) (rest []*group, err error) {
	for i := range outcomes {
		outcomes[i] = a.orphan
	}
	tenants, calls := keysOf(groups)
	numbers, err := t.numbers(ctx, sqlParents, tenants, calls)
	for _, n := range numbers {
		rest = append(rest, groups[n-1])
	}
	return rest, err
}

// standing locks the timers of groups and reads where they stand.
func (t *transaction) standing(ctx context.Context, groups []*group, numbers []int64) ([]*group, error) {
	slices.Sort(numbers)
	known := make([]*group, len(numbers))
	for i, n := range numbers {
		known[i] = groups[n-1]
	}
	tenants, calls := keysOf(known)
	found := 0
	err := t.rows(ctx, sqlStanding, []any{tenants, calls}, func(rows pgx.Rows) error {
		var n int64
		var place pgtype.TID
		var at timer.Standing
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
