package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/timer"
)

// cancelSelected cancels many timers, and leaves alone timers that are newer, have fired, or
// are of another tenant.
func cancelSelected(s *suite) {
	s.timers("acme", 1200, noon)
	s.timers("other", 2, noon)
	newer := schedule(key("acme", "call-000007"), 9, noon)
	s.schedule(newer)
	related := schedule(key("acme", "related"), 1, noon)
	related.CorrelationID = "request-7"
	s.schedule(related)
	do := func(c timer.CancelTimers) timer.CancelCounts {
		c.TenantID, c.Version = "acme", version(5)
		return s.applySelected(c.Command()).Canceled()
	}
	s.same("correlation", do(timer.CancelTimers{Of: timer.Selection{CorrelationID: "request-7"}}), timer.CancelCounts{Canceled: 1})
	prefix := timer.CancelTimers{Of: timer.Selection{Prefix: "call-"}}
	s.same("prefix", do(prefix), timer.CancelCounts{Canceled: 1199, Stale: 1})
	s.same("again", do(prefix), timer.CancelCounts{Stale: 1})
	s.same("calls", do(timer.CancelTimers{Of: timer.Selection{Calls: []timer.ServiceCallID{"call-000007", "none"}}}), timer.CancelCounts{Canceled: 1, Stale: 1})
	s.same("newer", s.get(key("acme", "call-000007")).State, timer.Scheduled)
	s.same("tombstone", s.get(key("acme", "none")).State, timer.Canceled)
	s.same("other", len(s.list("other", timer.Filter{State: timer.Scheduled}).Entries), 2)
}

// applySelected applies a command as the service does.
func (s *suite) applySelected(c timer.SelectionCommand) timer.SelectionCounts {
	n, err := timer.ApplySelected(s.Context(), c, s.store.List, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
		return step.Apply(ctx, noon, s.store)
	})
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// rescheduleSelected moves many timers by each selection, and leaves alone timers that are newer,
// have fired, are canceled, are of another tenant or would be due after they expire.
func rescheduleSelected(s *suite) {
	s.timers("acme", 1200, noon.Add(time.Hour)) // of version 1
	s.timers("other", 2, noon.Add(time.Hour))
	newer := schedule(key("acme", "call-000007"), 9, noon.Add(time.Hour))
	expires := schedule(key("acme", "call-000008"), 2, noon.Add(time.Hour))
	expires.ExpiresAt = noon.Add(3 * time.Hour)
	whole := schedule(key("acme", "whole"), 2, noon.Add(time.Hour))
	whole.CorrelationID, whole.Data, whole.ExpiresAt = "request-7", `{"n": 1}`, noon.Add(4*time.Hour)
	whole.Trace = timer.Trace{Parent: "00-01000000000000000000000000000000-0200000000000000-01"}
	s.schedule(newer, expires, whole, schedule(key("acme", "fired"), 2, noon.Add(-time.Hour)))
	s.cancel(cancel(key("acme", "canceled"), 2))
	s.reach(noon, 10)
	before := s.get(whole.Key)
	do := func(age int64, of timer.Selection, to time.Duration) timer.SelectionCounts {
		return s.applySelected(timer.RescheduleTimers{TenantID: "acme", Version: version(age), Of: of, DueAt: noon.Add(to)}.Command())
	}
	prefix := timer.Selection{Prefix: "call-"}
	s.same("prefix", do(5, prefix, 3*time.Hour), timer.SelectionCounts{Changed: 1198, Stale: 1, Refused: 1, Decided: 1199, Named: []timer.ServiceCallID{"call-000008"}})
	s.same("again", do(5, prefix, 3*time.Hour), timer.SelectionCounts{Stale: 1, Refused: 1, Decided: 1199, Named: []timer.ServiceCallID{"call-000008"}})
	s.same("late", do(4, prefix, 2*time.Hour), timer.SelectionCounts{Changed: 1, Stale: 1199, Decided: 1200})
	s.same("correlation", do(5, timer.Selection{CorrelationID: "request-7"}, 2*time.Hour), timer.SelectionCounts{Changed: 1, Decided: 1})
	calls := timer.Selection{Calls: []timer.ServiceCallID{"call-000007", "call-000009", "call", "fired", "canceled", "none"}}
	s.same("calls", do(6, calls, time.Minute), timer.SelectionCounts{Changed: 1, Stale: 1, Reached: 1, Decided: 3})
	for call, want := range map[timer.ServiceCallID]time.Time{
		"call-000000": noon.Add(3 * time.Hour), "call-001199": noon.Add(3 * time.Hour), "call-000007": noon.Add(time.Hour), "call-000008": noon.Add(2 * time.Hour), "call-000009": noon.Add(time.Minute),
	} {
		s.same(string(call), s.get(key("acme", call)).DueAt, want)
	}
	before.DueAt, before.Version = noon.Add(2*time.Hour), version(5)
	s.same("all others stay", s.get(whole.Key), before)
	s.same("canceled", s.get(key("acme", "canceled")).State, timer.Canceled)
	s.same("no tombstone", len(s.list("acme", timer.Filter{Prefix: "none"}).Entries), 0)
	s.same("other", s.get(key("other", "call-000000")).DueAt, noon.Add(time.Hour))
	s.same("due next", s.nextDue(), noon.Add(time.Minute))
	s.same("into the past", do(7, timer.Selection{Calls: calls.Calls[1:2]}, -time.Hour), timer.SelectionCounts{Changed: 1, Decided: 1})
	s.same("fires at once", keys(s.reach(noon, 10)), []timer.Key{key("acme", "call-000009")})
}

// rescheduleBy moves timers by a duration, twice, and an interrupted move goes on.
func rescheduleBy(s *suite) {
	s.timers("acme", 600, noon.Add(time.Hour))
	move := func(id string, by time.Duration) timer.SelectionCommand {
		c := timer.SelectionCommand{Move: timer.Move{By: by}, NotAfter: noon.Add(10 * time.Hour)}
		c.TenantID, c.Version, c.Of.Prefix = "acme", timer.Version{TimestampMS: 5, CommandID: id}, "call-"
		return c
	}
	s.same("once", s.applySelected(move("first", time.Hour)).Changed, 600)
	second := move("second", -30*time.Minute)
	steps := 0
	_, err := timer.ApplySelected(s.Context(), second, s.store.List, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
		if steps++; steps == 2 {
			return nil, timer.ErrLocked
		}
		return step.Apply(ctx, noon, s.store)
	})
	s.same("interrupted", errors.Is(err, timer.ErrLocked), true)
	s.same("goes on", s.applySelected(second).Changed, 100)
	for _, call := range []timer.ServiceCallID{"call-000000", "call-000599"} {
		e := s.get(key("acme", call))
		s.same("version", e.Version, timer.Version{TimestampMS: version(1).TimestampMS + 2, CommandID: "second"})
		s.same("due", e.DueAt.Truncate(time.Minute), noon.Add(90*time.Minute))
	}
	s.same("too late", s.applySelected(move("third", 9*time.Hour)).Refused, 600)
}

// rescheduleChanging has timers change after they were read: the changed timers are moved.
func rescheduleChanging(s *suite) {
	s.timers("acme", 4, noon)
	other := schedule(key("acme", "call-000001"), 3, noon)
	other.Data, other.CorrelationID = "7", "request-7"
	late := false
	list := func(ctx context.Context, f timer.Filter) (timer.Page, error) {
		page, err := s.store.List(ctx, f)
		if !late {
			late = true
			s.cancel(cancel(key("acme", "call-000000"), 3))
			s.schedule(other, schedule(key("acme", "call-000002"), 9, noon))
		}
		return page, err
	}
	n, err := timer.ApplySelected(s.Context(), timer.RescheduleTimers{TenantID: "acme", Version: version(5), Of: timer.Selection{Prefix: "call-"}, DueAt: noon.Add(time.Hour)}.Command(), list,
		func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
			return step.Apply(ctx, noon, s.store)
		})
	s.must(err)
	s.same("counts", n, timer.SelectionCounts{Changed: 2, Stale: 1, Decided: 3})
	s.same("canceled", s.get(key("acme", "call-000000")).State, timer.Canceled)
	moved := s.get(other.Key)
	moved.RegisteredAt = time.Time{}
	s.same("scheduled again", moved, timer.Entry{Key: other.Key, Version: version(5), State: timer.Scheduled, DueAt: noon.Add(time.Hour), Data: "7", CorrelationID: "request-7"})
	s.same("newer", s.get(key("acme", "call-000002")).DueAt, noon)
}

// A selectedStep is a command of [selections].
type selectedStep struct {
	Kind      string
	Call      timer.ServiceCallID
	Hours     int // until it is due
	Expires   bool
	Delivered int // how often
}

// selections has commands of distinct versions arrive in any order, some of them twice, and
// compares the timers with those of a model: a command has an effect on timers that are older and there.
func selections(s *suite) {
	n := 0
	rapid.Check(s, func(rt *rapid.T) {
		n++
		tenant := timer.TenantID(fmt.Sprint("tenant-", n))
		calls := []timer.ServiceCallID{"a", "a.1", "a.2", "b"}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) selectedStep {
			return selectedStep{
				rapid.SampledFrom([]string{"schedule", "schedule", "cancel", "cancel prefix", "move prefix", "move", "fire"}).Draw(t, "kind"),
				rapid.SampledFrom(calls).Draw(t, "call"), rapid.IntRange(-1, 5).Draw(t, "hours"), rapid.Bool().Draw(t, "expires"), rapid.IntRange(1, 2).Draw(t, "times"),
			}
		}), 1, 20).Draw(rt, "steps")
		order := rapid.Permutation(ages(len(steps))).Draw(rt, "versions")
		model := make(map[timer.ServiceCallID]timer.Entry)
		for i, step := range steps {
			v, due := version(order[i]), noon.Add(time.Duration(step.Hours)*time.Hour)
			if step.Kind == "fire" {
				s.fires(tenant, model)
				continue
			}
			for range step.Delivered {
				if err := s.arrives(tenant, v, step, due); err != nil {
					rt.Fatal(err)
				}
			}
			step.expect(model, v, due)
		}
		for _, call := range calls {
			e, err := s.store.Get(s.Context(), key(tenant, call))
			want := model[call]
			if err != nil && want.State != "" || e.State != want.State || e.Version != want.Version || !e.DueAt.Equal(want.DueAt) || e.State == timer.Scheduled && !e.ExpiresAt.Equal(want.ExpiresAt) {
				rt.Fatalf("%s is %+v (%v), want %+v", call, e, err, want)
			}
		}
	})
}

// ages returns the numbers from 1 to n.
func ages(n int) (all []int64) {
	for i := range n {
		all = append(all, int64(i+1))
	}
	return all
}

// fires fires the timers that are due at noon.
func (s *suite) fires(tenant timer.TenantID, model map[timer.ServiceCallID]timer.Entry) {
	for _, e := range s.reach(noon, 30_000) {
		if e.TenantID != tenant {
			continue
		}
		m := model[e.ServiceCallID]
		m.State = e.State
		model[e.ServiceCallID] = m
	}
	for call, m := range model {
		if m.State == timer.Scheduled && !m.DueAt.After(noon) {
			s.Errorf("%s was due at %s and did not fire", call, m.DueAt)
		}
	}
}

// arrives applies a command to the store.
func (s *suite) arrives(tenant timer.TenantID, v timer.Version, step selectedStep, due time.Time) error {
	of := timer.Selection{Calls: []timer.ServiceCallID{step.Call}}
	if strings.HasSuffix(step.Kind, "prefix") {
		of = timer.Selection{Prefix: string(step.Call)}
	}
	switch step.Kind {
	case "schedule":
		_, err := s.store.Schedule(s.Context(), noon, step.command(tenant, v, due))
		return err
	case "cancel", "cancel prefix":
		s.applySelected(timer.CancelTimers{TenantID: tenant, Version: v, Of: of}.Command())
	default:
		s.applySelected(timer.RescheduleTimers{TenantID: tenant, Version: v, Of: of, DueAt: due}.Command())
	}
	return nil
}

func (step selectedStep) command(tenant timer.TenantID, v timer.Version, due time.Time) timer.ScheduleTimer {
	c := timer.ScheduleTimer{Key: key(tenant, step.Call), Version: v, DueAt: due}
	if step.Expires {
		c.ExpiresAt = due.Add(2 * time.Hour)
	}
	return c
}

// expect applies a command to the model.
func (step selectedStep) expect(model map[timer.ServiceCallID]timer.Entry, v timer.Version, due time.Time) {
	switch step.Kind {
	case "schedule", "cancel":
		m := model[step.Call]
		if m.State.Marked() || m.State != "" && m.Version.Compare(v) > 0 {
			return
		}
		m.Version, m.State = v, timer.Canceled
		if step.Kind == "schedule" {
			c := step.command("acme", v, due)
			m.State, m.DueAt, m.ExpiresAt = timer.Scheduled, due, c.ExpiresAt
		}
		model[step.Call] = m
		return
	}
	for call, m := range model {
		selected := call == step.Call || strings.HasSuffix(step.Kind, "prefix") && strings.HasPrefix(string(call), string(step.Call))
		switch {
		case !selected || m.State != timer.Scheduled || m.Version.Compare(v) > 0:
			continue
		case step.Kind == "cancel prefix":
			m.State, m.Version = timer.Canceled, v
		case m.ExpiresAt.IsZero() || due.Before(m.ExpiresAt):
			m.DueAt, m.Version = due, v
		}
		model[call] = m
	}
}
