package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// RecoveredProperty tests any mix of commands, of timers that fire and of events that
// were published: timers, counts and the outbox are those of a model. It goes through at
// most the given number of histories, on one store.
func RecoveredProperty(t *testing.T, histories int, open func(testing.TB) Store) {
	store := open(t)
	s := &suite{T: t, store: store}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > histories && !t.Failed() {
			return
		}
		m := recoveredModel{
			joinedModel: joinedModel{rt: rt, s: s, tenant: timer.TenantID(fmt.Sprint("tenant-", n)), timers: make(map[timer.ServiceCallID]modelTimer)},
			outbox:      make(map[string]bool),
		}
		for _, step := range rapid.SliceOfN(rapid.Custom(recoveredStep), 1, 10).Draw(rt, "steps") {
			m.apply(step)
			m.check()
			m.checkOutbox()
		}
	})
	s.countsAreRight()
}

// A recoveredAction is one of the commands of a call, or events that were published.
type recoveredAction struct {
	Kind  string
	Calls []modelCall
	Fired []modelCommand // an event of the command of that age
	Keep  time.Duration
}

func recoveredStep(t *rapid.T) recoveredAction {
	return recoveredAction{
		Kind:  rapid.SampledFrom([]string{"commands", "commands", "fire", "defer", "fired", "fired"}).Draw(t, "kind"),
		Calls: rapid.SliceOfN(rapid.Custom(joinedCall), 1, 2).Draw(t, "calls"),
		Fired: rapid.SliceOfN(rapid.Custom(joinedCommand), 1, 5).Draw(t, "fired"),
		Keep:  time.Duration(rapid.IntRange(0, 5).Draw(t, "keep")) * time.Millisecond,
	}
}

// A recoveredModel also knows which events wait.
type recoveredModel struct {
	joinedModel
	outbox map[string]bool // ids
}

func (m *recoveredModel) apply(a recoveredAction) {
	switch a.Kind {
	case "commands":
		m.calls(m.s.store, a.Calls)
	case "fire":
		m.fireAndEmit()
	case "defer":
		for _, row := range m.s.head(0, 10_000) {
			if m.outbox[row.Message.UUID] {
				m.s.deferRow(row.Place, "events", "failed", noon)
				break
			}
		}
	case "fired":
		m.fired(a)
	}
}

// fireAndEmit fires in both the timers that are due at noon.
func (m *recoveredModel) fireAndEmit() {
	for _, e := range m.s.fire(noon, 1000) {
		t := m.timers[e.ServiceCallID]
		if e.TenantID != m.tenant { // left of a history that failed
			continue
		}
		if t.State != timer.Scheduled || t.Due.After(noon) {
			m.rt.Fatalf("%s fired, which is %+v", e.Key, t)
		}
		t.State = timer.Reached
		m.timers[e.ServiceCallID] = t
		m.outbox[envelope.EventID(e)] = true
	}
}

// fired brings events into both. Ages are milliseconds, and so events are reached at
// the age of their command, long after its due time.
func (m *recoveredModel) fired(a recoveredAction) {
	var events []timer.DueTimeReached
	var want int
	for _, c := range a.Fired {
		if slices.ContainsFunc(events, func(e timer.DueTimeReached) bool { return e.ServiceCallID == c.Call }) {
			continue // see firedTwice
		}
		e := timer.DueTimeReached{
			Key: key(m.tenant, c.Call), CommandID: version(c.Age).CommandID, DueAt: time.UnixMilli(1), ReachedAt: time.UnixMilli(c.Age),
		}
		before := m.timers[c.Call]
		if before.State == timer.Reached { // its own event, mostly
			e.CommandID, e.DueAt, e.ReachedAt = before.Version.CommandID, before.Due, noon
		}
		e.ID = envelope.EventID(e)
		events = append(events, e)
		delete(m.outbox, e.ID)
		switch {
		case before.State == timer.Reached, before.State != "" && before.Version.TimestampMS > c.Age+a.Keep.Milliseconds():
			continue
		case before.State == "":
			before.Version = timer.Version{TimestampMS: c.Age, CommandID: e.ID}
		}
		want++
		before.State, before.Due = timer.Reached, e.DueAt.UTC()
		m.timers[c.Call] = before
	}
	for range 2 { // again
		got, err := m.s.store.Fired(m.s.Context(), a.Keep, events...)
		m.must(err)
		m.same("changed", got, want)
		want = 0
	}
}

// checkOutbox compares the events of the tenant that wait.
func (m *recoveredModel) checkOutbox() {
	var got []string
	for _, row := range m.s.waiting() {
		if row.Message.Metadata[envelope.HeaderTenantID] == string(m.tenant) {
			got = append(got, row.Message.UUID)
		}
	}
	var want []string
	for id := range m.outbox {
		want = append(want, id)
	}
	slices.Sort(got)
	slices.Sort(want)
	m.same("outbox", got, want)
}
