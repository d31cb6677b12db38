package storetest

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/timer"
)

// JoinedProperty tests any mix of commands in transactions of the store and of hosts, of
// which some are rolled back, in any order of versions: outcomes, timers and counts are
// those of a model. It goes through at most the given number of histories, on one store.
func JoinedProperty(t *testing.T, histories int, open func(testing.TB) JoinedStore, begins ...Begin) {
	store := open(t)
	s := &suite{T: t, store: store}
	s.must(store.Check(t.Context())) // which gets it ready
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > histories && !t.Failed() {
			return
		}
		steps := rapid.SliceOfN(rapid.Custom(joinedStep), 1, 8).Draw(rt, "steps")
		m := joinedModel{rt: rt, s: s, store: store, begins: begins, tenant: timer.TenantID(fmt.Sprint("tenant-", n)), timers: make(map[timer.ServiceCallID]modelTimer)}
		for _, step := range steps {
			m.apply(step)
			m.check()
		}
		m.fire()
		m.check()
	})
	s.countsAreRight()
}

// A modelStep is a transaction, or the time of all that is due.
type modelStep struct {
	Way   string // who begins the transaction, and how it ends
	Kind  int    // of the host program's transactions
	Calls []modelCall
}

type modelCall struct {
	Cancel   bool
	Commands []modelCommand
}

type modelCommand struct {
	Call timer.ServiceCallID
	Age  int64
	Due  time.Time
}

func joinedCommand(t *rapid.T) modelCommand {
	return modelCommand{
		Call: timer.ServiceCallID(fmt.Sprint("call-", rapid.IntRange(0, 4).Draw(t, "call"))),
		Age:  rapid.Int64Range(1, 9).Draw(t, "age"),
		Due:  noon.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "due")) * time.Second),
	}
}

func joinedCall(t *rapid.T) modelCall {
	return modelCall{Cancel: rapid.Bool().Draw(t, "cancel"), Commands: rapid.SliceOfN(rapid.Custom(joinedCommand), 1, 4).Draw(t, "commands")}
}

func joinedStep(t *rapid.T) modelStep {
	return modelStep{
		Way:   rapid.SampledFrom([]string{"store", "committed", "committed", "rolled back", "transact", "failed", "fire"}).Draw(t, "way"),
		Kind:  rapid.IntRange(0, 9).Draw(t, "kind"),
		Calls: rapid.SliceOfN(rapid.Custom(joinedCall), 1, 3).Draw(t, "calls"),
	}
}

// A joinedModel is what must be in the store.
type joinedModel struct {
	rt     *rapid.T
	s      *suite
	store  JoinedStore
	begins []Begin

	tenant timer.TenantID
	timers map[timer.ServiceCallID]modelTimer
}

type modelTimer struct {
	timer.Status
	Due time.Time // of a timer that is not Canceled
}

// apply goes through a step.
func (m *joinedModel) apply(step modelStep) {
	ctx := m.s.Context()
	switch step.Way {
	case "fire":
		m.fire()
	case "store":
		m.calls(m.store, step.Calls)
	case "transact":
		m.must(m.store.Transact(ctx, func(tx *sql.Tx) error { m.calls(m.store.Join(tx), step.Calls); return nil }))
	case "failed":
		before := maps.Clone(m.timers)
		if err := m.store.Transact(ctx, func(tx *sql.Tx) error { m.calls(m.store.Join(tx), step.Calls); return errOurs }); err != errOurs { //nolint:errorlint // it is
			m.rt.Fatalf("transact: %v, want what fn returned", err)
		}
		m.timers = before
	default:
		before := maps.Clone(m.timers)
		tx := m.begins[step.Kind%len(m.begins)](m.s.T, m.store)
		m.calls(tx, step.Calls)
		if step.Way == "committed" {
			m.must(tx.Commit())
			return
		}
		m.must(tx.Rollback())
		m.timers = before
	}
}

// calls applies commands to both.
func (m *joinedModel) calls(to timer.Commands, calls []modelCall) {
	for _, c := range calls {
		want := make([]timer.Result, len(c.Commands))
		schedules := make([]timer.ScheduleTimer, len(c.Commands))
		cancels := make([]timer.CancelTimer, len(c.Commands))
		for i, command := range c.Commands {
			k, before := key(m.tenant, command.Call), m.timers[command.Call]
			schedules[i], cancels[i] = schedule(k, command.Age, command.Due), cancel(k, command.Age)
			after := before
			if c.Cancel {
				after.Status, want[i].Outcome = before.Cancel(version(command.Age))
			} else if after.Status, want[i].Outcome = before.Schedule(version(command.Age)); after != before {
				after.Due = command.Due
			}
			m.timers[command.Call] = after
		}
		var got []timer.Result
		var err error
		if c.Cancel {
			got, err = to.Cancel(m.s.Context(), noon, cancels...)
		} else {
			got, err = to.Schedule(m.s.Context(), noon, schedules...)
		}
		m.must(err)
		m.same("results", got, want)
	}
}

// fire reaches in both the timers that are due at noon.
func (m *joinedModel) fire() {
	var got, want []timer.ServiceCallID
	m.must(m.store.Update(m.s.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(m.s.Context(), noon, 1000, nil)
		for _, e := range entries {
			if e.TenantID == m.tenant { // others are left of a history that failed
				got = append(got, e.ServiceCallID)
			}
		}
		return err
	}))
	for call, t := range m.timers {
		if t.State == timer.Scheduled && !t.Due.After(noon) {
			want = append(want, call)
			t.State = timer.Reached
			m.timers[call] = t
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	m.same("fired", got, want)
}

// check compares the timers and counts of the tenant.
func (m *joinedModel) check() {
	page, err := m.s.store.List(m.s.Context(), timer.Filter{TenantID: m.tenant})
	m.must(err)
	got := make(map[timer.ServiceCallID]modelTimer)
	for _, e := range page.Entries {
		got[e.ServiceCallID] = modelTimer{Status: timer.Status{State: e.State, Version: e.Version}, Due: e.DueAt}
	}
	var counts timer.Counts
	for call, t := range m.timers {
		switch t.State {
		case timer.Scheduled:
			counts.Scheduled++
		case timer.Reached:
			counts.Reached++
		case timer.Canceled:
			counts.Canceled++
			t.Due = got[call].Due // a tombstone has none, a canceled timer keeps its own
		}
		m.timers[call] = t
	}
	m.same("timers", got, m.timers)
	kept, err := m.s.store.Stats(m.s.Context(), m.tenant)
	m.must(err)
	m.same("counts", kept.Counts, counts)
}

func (m *joinedModel) must(err error) {
	if err != nil {
		m.rt.Fatal(err)
	}
}

func (m *joinedModel) same(what string, got, want any) {
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		m.rt.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
