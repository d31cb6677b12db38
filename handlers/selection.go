package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// selections knows which commands by selection were applied: cancellations by a prefix or a
// correlation id, and moves. Such a command finds only the timers that there are. The commands
// that wait in the inbox are compared with it when they are handled.
type selections struct {
	inbox timer.Inbox
	clock timer.Clock

	mu       sync.Mutex
	underWay map[timer.TenantID][]*timer.SelectionCommand
	known    map[timer.TenantID]knownSelections
}

// knownSelections are the selections of a tenant, as they were read at a time. Selections that
// were applied since, here or by other instances, are read behind them each time.
type knownSelections struct {
	until   time.Time // when all are read again: on PostgreSQL a transaction can commit after one with a higher number
	last    int64     // Seq of the last one that was older than commitTime
	applied []appliedSelection
}

// An appliedSelection is a command by selection, and the message in the inbox that says that it
// was applied.
type appliedSelection struct {
	timer.SelectionCommand
	message timer.InboxMessage
}

const (
	maxKnown   = 1000        // tenants whose selections are remembered
	knownFor   = time.Second // or for knownShare times as long as it took to read them
	knownShare = 20

	// commitTime is how long the transaction of a note may take. Notes that are not older are read
	// each time, with any that commit behind them.
	commitTime = time.Second

	// These are the ages of selections that came from no log: the broker does not deliver them
	// again.
	purgeAge     = time.Hour
	purgeSoonest = time.Minute // where a tenant has many
)

func newSelections(in timer.Inbox, clock timer.Clock) selections {
	return selections{inbox: in, clock: clock, underWay: make(map[timer.TenantID][]*timer.SelectionCommand), known: make(map[timer.TenantID]knownSelections)}
}

// begin says that a command is being applied, until end is called.
func (s *selections) begin(c *timer.SelectionCommand) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay[c.TenantID] = append(s.underWay[c.TenantID], c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		others := slices.DeleteFunc(s.underWay[c.TenantID], func(other *timer.SelectionCommand) bool { return other == c })
		if s.underWay[c.TenantID] = others; len(others) == 0 {
			delete(s.underWay, c.TenantID)
		}
	}
}

// errUnderWay is the error of a command that waited, and that a newer command selects which is
// being applied.
var errUnderWay = errors.New("a command that selects the timer is being applied")

// of returns the selections that were applied to timers of a tenant.
func (s *selections) of(ctx context.Context, tenant timer.TenantID) ([]appliedSelection, error) {
	now := s.clock.Now()
	s.mu.Lock()
	known := s.known[tenant]
	s.mu.Unlock()
	isKnown := now.Before(known.until)
	if !isKnown {
		known = knownSelections{}
	}
	rows, err := s.inbox.AppliedSelections(ctx, tenant, known.last)
	if err != nil {
		return nil, fmt.Errorf("read the selections of %s: %w", tenant, err)
	}
	settled, old := 0, true // notes that are remembered
	known.applied = slices.Grow(slices.Clip(known.applied), len(rows))
	for _, m := range rows {
		decoded, _ := envelope.DecodeWith(m.Body, func(string) string { return "" }) // which applyOnce has encoded
		if c, ok := timer.SelectionOf(decoded.Payload); ok {
			known.applied = append(known.applied, appliedSelection{c, m})
		}
		if old = old && now.Sub(m.ArrivedAt) > commitTime; old {
			known.last, settled = m.Seq, len(known.applied)
		}
	}
	if isKnown {
		return known.applied, nil
	}
	all := known.applied
	known.applied = all[:settled:settled]
	known.until = now.Add(max(knownFor, knownShare*s.clock.Now().Sub(now)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[tenant] = known
	return all, nil
}

// selectedBy returns a command that has waited since a time as the selections left it that were
// applied meanwhile, in their order, and whether one of them canceled it. The version is that of
// the last one that had an effect.
func selectedBy(applied []appliedSelection, c timer.ScheduleTimer, since time.Time) (_ timer.ScheduleTimer, canceled bool) {
	for _, a := range applied {
		switch {
		case since.After(a.message.ArrivedAt) || !selects(&a.SelectionCommand, c):
		case !a.IsMove():
			c.Version, canceled = a.Version, true
		case !canceled && timer.ValidateExpiresAt("", c.ExpiresAt, a.To) == nil:
			c.Version, c.DueAt = a.Version, a.To
		}
	}
	return c, canceled
}

// isUnderWay reports whether a command that selects another one is being applied.
func (s *selections) isUnderWay(c timer.ScheduleTimer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.underWay[c.TenantID], func(by *timer.SelectionCommand) bool { return selects(by, c) })
}

func selects(by *timer.SelectionCommand, c timer.ScheduleTimer) bool {
	return c.Version.Compare(by.Version) < 0 && by.Of.Selects(c.ServiceCallID, c.CorrelationID)
}

// leaveCanceled removes from a row the commands that were canceled while they waited, and gives
// moved ones their new due time.
func (h *Handlers) leaveCanceled(d *receivedMessage) error {
	if d.row == nil {
		return nil
	}
	for _, c := range d.schedules { // before the store is asked: a selection ends after it is known
		if h.selections.isUnderWay(c) {
			return errUnderWay
		}
	}
	canceled, others, _, err := h.selectWaiting(d)
	if err != nil {
		return err
	}
	d.schedules = others
	if len(canceled) == 0 {
		return nil
	}
	if h.opt.Receipts != nil {
		results := make([]timer.Result, len(canceled))
		for i := range results {
			results[i].Outcome = timer.WasStale
		}
		if err := h.opt.Receipts(d.ctx, h.clock.Now(), timer.Receipts(canceled, results, h.clock.Now())...); err != nil {
			return fmt.Errorf("write receipts of %s: %w", canceled[0].Key, err)
		}
	}
	if len(others) == 0 {
		d.result.Outcome = timer.WasStale.String()
	}
	return nil
}

// selectWaiting cancels the timers of a row that were canceled while their commands waited. They
// get tombstones: the broker may deliver the commands again. The others have the due times to
// which they were moved, and the version of their message, as whose commands they are applied
// together. After that they have the versions of the moves.
func (h *Handlers) selectWaiting(d *receivedMessage) (canceled, others, moves []timer.ScheduleTimer, err error) {
	if d.row == nil {
		return nil, d.schedules, nil, nil
	}
	tenant := d.schedules[0].TenantID
	applied, err := h.selections.of(d.ctx, tenant)
	if err != nil {
		return nil, nil, nil, err
	}
	var cancels []timer.CancelTimer
	for _, c := range d.schedules {
		after, isCanceled := selectedBy(applied, c, d.row.ArrivedAt)
		switch {
		case isCanceled:
			canceled, cancels = append(canceled, c), append(cancels, timer.CancelTimer{Key: c.Key, Version: after.Version})
			continue
		case after.Version != c.Version:
			after.Moves, c.DueAt = c.Version, after.DueAt
			moves = append(moves, after)
		}
		others = append(others, c)
	}
	if len(cancels) == 0 {
		return nil, others, moves, nil
	}
	if _, err := d.store.Cancel(d.ctx, h.clock.Now(), cancels...); err != nil {
		return nil, nil, nil, fmt.Errorf("cancel %s: %w", cancels[0].Key, err)
	}
	h.decremented(tenant)
	return canceled, others, moves, nil
}

// decremented says that fewer timers of a tenant wait.
func (h *Handlers) decremented(tenant timer.TenantID) {
	h.opt.Quotas.Decremented(tenant)
	h.inbox.open(tenant)
}

// Applied returns the message in the inbox that says that a command was applied to the timers
// that it selects. Commands that waited before are compared with it.
func Applied(c timer.SelectionCommand, at time.Time) timer.InboxMessage {
	return timer.InboxMessage{TenantID: c.TenantID, MessageID: c.CommandID, Body: envelope.Selection(c), ArrivedAt: timer.RoundDown(at), Reason: timer.WaitApplied}
}

// applyOnce applies a command to the timers that it selects, unless it was applied before, and
// notes that it was. A move of service calls needs no note if no older command can have an effect
// on their timers any more: then it changes nothing when it is applied again.
func (h *Handlers) applyOnce(d *receivedMessage) (results []timer.Result, err error) {
	defer h.selections.begin(&d.selection)()
	if !d.noted {
		if results, err = h.applyAndNote(d); err != nil || !d.noted {
			return results, err
		}
	}
	// A command that waited may have been handled since the timers were listed. One that is
	// handled later sees that the selection was applied: it looks again behind its commit.
	late, _, err := h.applySelected(d)
	return append(results, late...), err
}

// applyAndNote applies a selection and notes that, unless it was applied before or needs no note.
func (h *Handlers) applyAndNote(d *receivedMessage) ([]timer.Result, error) {
	m := h.inboxMessage(d.msg)
	if d.row != nil {
		m.Log, m.Number = d.row.Log, d.row.Number
	}
	m.TenantID, m.MessageID, m.Reason = d.selection.TenantID, d.origin.ID, timer.WaitApplied
	m.Headers, m.Body = nil, envelope.Selection(d.selection)
	applied, err := h.selections.of(d.ctx, m.TenantID)
	if len(applied) >= purgeSize {
		h.inbox.hurry()
	}
	switch {
	case err != nil:
		return nil, err
	case slices.ContainsFunc(applied, func(a appliedSelection) bool { return sameMessage(&a.message, &m) }):
		return nil, nil
	case int64(len(applied)) >= h.inbox.limit.Messages:
		return nil, fmt.Errorf("%d commands by selection of tenant %s wait for commands that are older", len(applied), m.TenantID)
	}
	results, n, err := h.applySelected(d)
	if err != nil || n.Decides(d.selection) {
		return results, err
	}
	m.ArrivedAt = timer.RoundDown(h.clock.Now())
	if err := h.store.PutInbox(d.ctx, m.ArrivedAt, m); err != nil {
		return nil, fmt.Errorf("note that the selection was applied: %w", err)
	}
	d.noted = true
	return results, nil
}

// sameMessage reports whether two messages in the inbox are one at the broker, or have the id
// of one command.
func sameMessage(a, b *timer.InboxMessage) bool {
	return a.MessageID == b.MessageID || a.Log != "" && a.Log == b.Log && a.Number == b.Number
}
