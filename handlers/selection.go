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

// selections knows which cancellations by a prefix or a correlation id were applied. Such a
// cancellation finds only the timers that there are. The commands that wait in the inbox are
// compared with it when they are handled.
type selections struct {
	inbox timer.Inbox
	clock timer.Clock

	mu       sync.Mutex
	underWay map[timer.TenantID][]*timer.CancelTimers
	known    map[timer.TenantID]knownSelections
}

// knownSelections are those of a tenant, as they were read at a time. What was applied since,
// here or by other instances, is read behind them each time.
type knownSelections struct {
	until   time.Time // when all are read again: on PostgreSQL a transaction can commit after one with a higher number
	last    int64     // Seq of the last one
	applied []appliedSelection
}

// An appliedSelection is a cancellation, and the message in the inbox that says that it was
// applied.
type appliedSelection struct {
	timer.CancelTimers
	message timer.InboxMessage
}

const (
	maxKnown   = 1000        // tenants whose selections are remembered
	knownFor   = time.Second // or for knownShare times as long as it took to read them
	knownShare = 20
	purgeAge   = time.Hour // of selections that came from no log: the broker does not deliver them again
)

func newSelections(in timer.Inbox, clock timer.Clock) selections {
	return selections{inbox: in, clock: clock, underWay: make(map[timer.TenantID][]*timer.CancelTimers), known: make(map[timer.TenantID]knownSelections)}
}

// begin says that a cancellation is being applied, until end is called.
func (s *selections) begin(c *timer.CancelTimers) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay[c.TenantID] = append(s.underWay[c.TenantID], c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		others := slices.DeleteFunc(s.underWay[c.TenantID], func(other *timer.CancelTimers) bool { return other == c })
		if s.underWay[c.TenantID] = others; len(others) == 0 {
			delete(s.underWay, c.TenantID)
		}
	}
}

// errUnderWay is the error of a command that waited, and that a newer cancellation selects
// which is being applied.
var errUnderWay = errors.New("a cancellation that selects the timer is being applied")

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
	known.applied = slices.Grow(slices.Clip(known.applied), len(rows))
	for _, m := range rows {
		decoded, _ := envelope.DecodeWith(m.Body, func(string) string { return "" }) // which cancelSelection has encoded
		if c, ok := decoded.Payload.(timer.CancelTimers); ok {
			known.applied = append(known.applied, appliedSelection{c, m})
		}
	}
	if isKnown {
		return known.applied, nil
	}
	known.until = now.Add(max(knownFor, knownShare*s.clock.Now().Sub(now)))
	if len(rows) > 0 {
		known.last = rows[len(rows)-1].Seq
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[tenant] = known
	return known.applied, nil
}

// canceledBy returns the version of the newest cancellation that has canceled a command which
// has waited since a time; zero if none has.
func canceledBy(applied []appliedSelection, c timer.ScheduleTimer, since time.Time) (newest timer.Version) {
	for _, a := range applied {
		if !since.After(a.message.ArrivedAt) && selects(&a.CancelTimers, c) && newest.Compare(a.Version) < 0 {
			newest = a.Version
		}
	}
	return newest
}

// isUnderWay reports whether a cancellation that selects a command is being applied.
func (s *selections) isUnderWay(c timer.ScheduleTimer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.underWay[c.TenantID], func(cancel *timer.CancelTimers) bool { return selects(cancel, c) })
}

func selects(cancel *timer.CancelTimers, c timer.ScheduleTimer) bool {
	return c.Version.Compare(cancel.Version) < 0 && cancel.Of.Selects(c.ServiceCallID, c.CorrelationID)
}

// leaveCanceled removes from a row the commands that were canceled while they waited.
func (h *Handlers) leaveCanceled(d *delivery) error {
	if d.row == nil {
		return nil
	}
	for _, c := range d.schedules { // before the store is asked: a cancellation ends after it is known
		if h.selections.isUnderWay(c) {
			return errUnderWay
		}
	}
	canceled, others, err := h.cancelWaiting(d)
	if err != nil || len(canceled) == 0 {
		return err
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
	if d.schedules = others; len(others) == 0 {
		d.result.Outcome = timer.WasStale.String()
	}
	return nil
}

// cancelWaiting cancels the timers of a row that were canceled while their commands waited. They
// get tombstones: the broker may deliver the commands again.
func (h *Handlers) cancelWaiting(d *delivery) (canceled, others []timer.ScheduleTimer, err error) {
	if d.row == nil {
		return nil, d.schedules, nil
	}
	tenant := d.schedules[0].TenantID
	applied, err := h.selections.of(d.ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	var cancels []timer.CancelTimer
	for _, c := range d.schedules {
		v := canceledBy(applied, c, d.row.ArrivedAt)
		if v.CommandID == "" {
			others = append(others, c)
			continue
		}
		canceled, cancels = append(canceled, c), append(cancels, timer.CancelTimer{Key: c.Key, Version: v})
	}
	if len(cancels) == 0 {
		return nil, others, nil
	}
	if _, err := d.store.Cancel(d.ctx, h.clock.Now(), cancels...); err != nil {
		return nil, nil, fmt.Errorf("cancel %s: %w", cancels[0].Key, err)
	}
	h.decremented(tenant)
	return canceled, others, nil
}

// decremented says that fewer timers of a tenant wait.
func (h *Handlers) decremented(tenant timer.TenantID) {
	if h.opt.Quotas != nil {
		h.opt.Quotas.Decremented(tenant)
		h.inbox.open(tenant)
	}
}

// Applied returns the message in the inbox that says that a cancellation by a prefix or a
// correlation id was applied. Commands that waited before are compared with it.
func Applied(c timer.CancelTimers, at time.Time) timer.InboxMessage {
	return timer.InboxMessage{TenantID: c.TenantID, MessageID: c.CommandID, Body: envelope.CancelMany(c), ArrivedAt: timer.RoundDown(at), Reason: timer.WaitApplied}
}

// cancelSelection applies a cancellation by a prefix or a correlation id, unless it was applied
// before, and notes that it was.
func (h *Handlers) cancelSelection(d *delivery) ([]timer.Result, error) {
	defer h.selections.begin(&d.cancel)()
	m := h.inboxMessage(d.msg)
	if d.row != nil {
		m.Log, m.Number = d.row.Log, d.row.Number
	}
	m.TenantID, m.MessageID, m.Reason = d.cancel.TenantID, d.origin.ID, timer.WaitApplied
	m.Headers, m.Body = nil, envelope.CancelMany(d.cancel)
	applied, err := h.selections.of(d.ctx, m.TenantID)
	switch {
	case err != nil:
		return nil, err
	case slices.ContainsFunc(applied, func(a appliedSelection) bool { return sameMessage(&a.message, &m) }):
		return nil, nil
	case int64(len(applied)) >= h.inbox.limit.Messages:
		return nil, fmt.Errorf("%d cancellations of tenant %s wait for commands that are older", len(applied), m.TenantID)
	}
	results, err := h.cancelSelected(d)
	if err != nil {
		return nil, err
	}
	m.ArrivedAt = timer.RoundDown(h.clock.Now())
	if err := h.store.PutInbox(d.ctx, m.ArrivedAt, m); err != nil {
		return nil, fmt.Errorf("note that the selection was applied: %w", err)
	}
	// A command that waited may have been handled since the timers were listed. One that is
	// handled later sees that the selection was applied: it looks again behind its commit.
	late, err := h.cancelSelected(d)
	return append(results, late...), err
}

// sameMessage reports whether two messages in the inbox are one at the broker, or have the id
// of one command.
func sameMessage(a, b *timer.InboxMessage) bool {
	return a.MessageID == b.MessageID || a.Log != "" && a.Log == b.Log && a.Number == b.Number
}
