package store

import (
	"context"

	"github.com/event-service-agent/timer-service/timer"
)

// A Changer makes the changes of a [timer.Operator] that one statement makes. A database
// embeds it and adds the others.
type Changer struct {
	SQL Changes

	// Change runs a statement in a transaction of its own, and returns how many rows it
	// changed. Arguments are as those of [Reader.Rows], or a list of numbers.
	Change func(ctx context.Context, doing, text string, args ...any) (changed int, err error)
}

// Changes are the statements of a [Changer], in the words of a database.
type Changes struct{ Pause, Resume, DiscardParked, ForgetParked string }

// ChangesOf returns the changes that a database has, by their names.
func ChangesOf(query func(name string) string) Changes {
	return Changes{Pause: query("pause"), Resume: query("resume"), DiscardParked: query("discard_parked"), ForgetParked: query("forget_parked")}
}

// PauseFiring keeps a pause.
func (c *Changer) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	_, err = c.Change(ctx, "pause firing", c.SQL.Pause, string(p.TenantID), p.Since, p.Until, p.By)
	return err
}

// ResumeFiring ends a pause.
func (c *Changer) ResumeFiring(ctx context.Context, tenant timer.TenantID) error {
	_, err := c.Change(ctx, "resume firing", c.SQL.Resume, string(tenant))
	return err
}

// DiscardParked deletes parked events.
func (c *Changer) DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error) {
	return c.Change(ctx, "discard parked events", c.SQL.DiscardParked, seqs)
}

// ForgetParked deletes the parked events of a tenant, in as many transactions of a limited
// number of rows as that takes.
func (c *Changer) ForgetParked(ctx context.Context, tenant timer.TenantID, limit int) error {
	return inSteps(limit, func() (int, error) {
		return c.Change(ctx, "forget a tenant", c.SQL.ForgetParked, string(tenant), limit)
	})
}

// inSteps calls a function that deletes up to limit rows until it deletes fewer.
func inSteps(limit int, remove func() (int, error)) error {
	for deleted := limit; deleted == limit; {
		var err error
		if deleted, err = remove(); err != nil {
			return err
		}
	}
	return nil
}
