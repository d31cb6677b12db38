package store

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Changer makes the changes of a [timer.Operator] that one statement makes. A database
// embeds it and adds the others.
type Changer struct {
	SQL Changes

	// Change runs a statement in a transaction of its own, and returns how many rows it
	// changed. Arguments are as those of [Reader.Rows], or a list of numbers.
	Change func(ctx context.Context, doing, text string, args ...any) (changed int, err error)

	// Write runs a statement in a transaction of its own, and calls each for the rows that it
	// returns. Arguments are as those of [Reader.Rows].
	Write func(ctx context.Context, doing, text string, args []any, each func(Scanner) error) error

	// Together calls fn with a function that runs a statement, as Change does, in one
	// transaction.
	Together func(ctx context.Context, doing string, fn func(run func(text string, args ...any) (changed int64, err error)) error) error
	Rows     func(ctx context.Context, doing, text string, args []any, each func(Scanner) error) error // as [Reader.Rows]
}

// Changes are the statements of a [Changer], in the words of a database.
type Changes struct {
	Decide, Decisions, Published, Pause, Resume, DiscardParked, ForgetParked, ForgetInbox, Forget string

	ForgetOutbox OutboxStatement
}

// ChangesOf returns the changes that a database has, by their names.
func ChangesOf(query func(name string) string) Changes {
	return Changes{
		Decide: query("decide"), Decisions: query("decisions"), Published: query("decision_published"), Pause: query("pause"), Resume: query("resume"),
		DiscardParked: query("discard_parked"), ForgetParked: query("forget_parked"), ForgetInbox: query("inbox_forget"), Forget: query("forget"),
		ForgetOutbox: OnBoth(query("forget_outbox")),
	}
}

// Decide records a decision. One that was read from the broker has the whole pause, also if
// another one is in force.
func (c *Changer) Decide(ctx context.Context, d timer.Decision) error {
	d, err := d.Kept()
	if err != nil {
		return err
	}
	tenant := string(d.TenantID)
	return c.Together(ctx, "record a decision", func(run func(string, ...any) (int64, error)) error {
		changed, err := run(c.SQL.Decide, tenant, string(d.Kind), d.At, d.Published)
		if err != nil || changed == 0 || d.Kind != timer.DecidedFiring {
			return err
		}
		if d.Published || !d.Pause.Paused() {
			_, err = run(c.SQL.Resume, tenant)
		}
		if err == nil && d.Pause.Paused() {
			_, err = run(c.SQL.Pause, tenant, d.Pause.Since, d.Pause.Until, d.Pause.By)
		}
		return err
	})
}

// Decisions returns the last decisions.
func (c *Changer) Decisions(ctx context.Context) (all []timer.Decision, err error) {
	err = c.Rows(ctx, "read the decisions", c.SQL.Decisions, nil, Collect(&all, readDecision))
	return all, err
}

// MarkPublished records that the broker has a mark.
func (c *Changer) MarkPublished(ctx context.Context, d timer.Decision) error {
	_, err := c.Change(ctx, "record that the broker knows a decision", c.SQL.Published, string(d.TenantID), string(d.Kind), d.At)
	return err
}

// DiscardParked deletes parked events.
func (c *Changer) DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error) {
	return c.Change(ctx, "discard parked events", c.SQL.DiscardParked, seqs)
}

// Forget deletes timers of a tenant in one transaction, after its parked events and its messages in
// the inbox, and with a time its events in the outbox, in as many as they take. An event of the
// outbox may be parked meanwhile, so the parked ones come later.
func (c *Changer) Forget(ctx context.Context, tenant timer.TenantID, until time.Time, limit int) (counts timer.Counts, err error) {
	if limit <= 0 {
		return counts, nil
	}
	const doing = "forget a tenant"
	texts := []string{c.SQL.ForgetParked, c.SQL.ForgetInbox}
	if !until.IsZero() {
		until, texts = timer.RoundDown(until), append([]string{c.SQL.ForgetOutbox.Head, c.SQL.ForgetOutbox.Deferred}, texts...)
	}
	for _, text := range texts {
		if err := InSteps(limit, func() (int, error) {
			return c.Change(ctx, doing, text, string(tenant), until, int64(limit))
		}); err != nil {
			return counts, err
		}
	}
	err = c.Write(ctx, doing, c.SQL.Forget, []any{string(tenant), until, int64(limit)}, func(row Scanner) error {
		var state timer.State
		var n int64
		err := row.Scan((*string)(&state), &n)
		counts.Count(state, n)
		return err
	})
	if err != nil {
		return timer.Counts{}, err
	}
	return counts, nil
}

// HastenRows is the most rows that one transaction makes due: a million take longer than a
// statement of PostgreSQL may, and on SQLite no other transaction writes meanwhile.
const HastenRows = 2000

// InSteps calls a function that changes up to limit rows until it changes fewer.
func InSteps(limit int, step func() (changed int, err error)) error {
	for changed := limit; changed == limit; {
		var err error
		if changed, err = step(); err != nil {
			return err
		}
	}
	return nil
}
