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

	// Together calls fn with a function that runs a statement, as Change does, in one
	// transaction.
	Together func(ctx context.Context, doing string, fn func(run func(text string, args ...any) (changed int64, err error)) error) error
	Rows     func(ctx context.Context, doing, text string, args []any, each func(Scanner) error) error // as [Reader.Rows]
}

// Changes are the statements of a [Changer], in the words of a database.
type Changes struct{ Decide, Decisions, Published, Pause, Resume, DiscardParked, ForgetParked string }

// ChangesOf returns the changes that a database has, by their names.
func ChangesOf(query func(name string) string) Changes {
	return Changes{
		Decide: query("decide"), Decisions: query("decisions"), Published: query("decision_published"), Pause: query("pause"), Resume: query("resume"),
		DiscardParked: query("discard_parked"), ForgetParked: query("forget_parked"),
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

// ForgetParked deletes the parked events of a tenant that were appended until a time, or all if
// that is zero, in as many transactions of a limited number of rows as that takes.
func (c *Changer) ForgetParked(ctx context.Context, tenant timer.TenantID, until time.Time, limit int) error {
	return InSteps(limit, func() (int, error) {
		return c.Change(ctx, "forget a tenant", c.SQL.ForgetParked, string(tenant), until, limit)
	})
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
