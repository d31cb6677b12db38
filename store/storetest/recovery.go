package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func number(log string, kind timer.LogKind, n int64) timer.Number {
	return timer.Number{Broker: "broker", Log: log, Kind: kind, Number: n}
}

func (s *suite) known() timer.Known {
	s.Helper()
	k, err := s.store.Known(s.Context())
	s.must(err)
	return k
}

func compareNumbers(a, b timer.Number) int {
	return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Log, b.Log), cmp.Compare(a.Kind, b.Kind))
}

// numbersAre compares the numbers that the database has.
func (s *suite) numbersAre(when string, want ...timer.Number) {
	s.Helper()
	got := s.known().Numbers
	slices.SortFunc(got, compareNumbers)
	s.same("numbers "+when, got, want)
}

func numbersLast(s *suite) {
	s.must(s.store.Advance(s.Context()))
	s.numbersAre("before the first")
	commands, events := number("a", timer.LogCommands, 5), number("a", timer.LogEvents, 7)
	s.must(s.store.Advance(s.Context(), events, commands))
	s.numbersAre("once written", commands, events)
	commands.Number = 3 // the broker has lost the end of its log
	s.must(s.store.Advance(s.Context(), commands))
	s.numbersAre("once one is lower", commands, events)
	other := commands
	other.Broker, other.Number = "another", 1<<62
	s.must(s.store.Advance(s.Context(), other))
	s.numbersAre("of two brokers", other, commands, events)
	ended, end := context.WithCancel(s.Context())
	end()
	if err := s.store.Advance(ended, number("a", timer.LogCommands, 9)); err == nil {
		s.Error("written though the context has ended")
	}
	s.numbersAre("after a call that failed", other, commands, events)
}

func numbersOfMany(s *suite) {
	many := make([]timer.Number, 300)
	for i := range many {
		many[i] = number(fmt.Sprintf("c-%03d", i), timer.LogDeadLetters, int64(i))
	}
	many[7].Log = `c-007 "quoted" and \ ü`
	for range 3 {
		s.must(s.store.Advance(s.Context(), many...))
		for i := range many {
			many[i].Number += 1000
		}
	}
	for i := range many {
		many[i].Number -= 1000
	}
	s.numbersAre("of many logs", many...)
}

func emptyDatabases(s *suite) {
	s.same("a new one is empty", s.known().Empty, true)
	s.cancel(cancel(key("acme", "call"), 1))
	s.same("one with a tombstone is empty", s.known().Empty, false)
	s.same("purged", s.sweep(noon.Add(time.Hour), 10), 1)
	s.same("one without anything is empty", s.known().Empty, true)

	s.emit(event(1))
	s.same("one with an event is empty", s.known().Empty, false)
	row := s.head(0, 1)[0]
	s.deferRow(row.Place, "events", "failed", noon)
	s.same("one with a deferred event is empty", s.known().Empty, false)
	s.must(s.store.Park(s.Context(), noon, s.deferred(noon, "", 1, 1)[0].Place, "refused"))
	s.same("one with a parked event is empty", s.known().Empty, false)
	_, err := s.store.DiscardParked(s.Context(), row.Seq)
	s.must(err)
	s.same("one without anything is empty", s.known().Empty, true)

	s.must(s.store.Advance(s.Context(), number("log", timer.LogCommands, 1)))
	s.same("one with a number is empty", s.known().Empty, false)
}

// fired brings in events, and returns how many timers were not Reached before.
func (s *suite) fired(keep time.Duration, events ...timer.DueTimeReached) int {
	s.Helper()
	n, err := s.store.Fired(s.Context(), keep, events...)
	s.must(err)
	return n
}

// keep is how long timers are kept that are Reached.
const keep = 7 * 24 * time.Hour

func firedStates(s *suite) {
	s.same("none", s.fired(keep), 0)
	ms := noon.UnixMilli()
	command := func(call timer.ServiceCallID, age int64) timer.ScheduleTimer {
		c := schedule(key("acme", call), age, noon.Add(time.Hour))
		c.Data, c.CorrelationID = `{"n":1}`, "request"
		return c
	}
	s.schedule(command("scheduled", ms-1), command("canceled", ms-1), command("newer", ms+keep.Milliseconds()), command("too-new", ms+keep.Milliseconds()+1))
	s.cancel(cancel(key("acme", "canceled"), ms), cancel(key("acme", "tombstone"), ms), cancel(key("acme", "tombstone-too-new"), ms+keep.Milliseconds()+1))
	calls := []timer.ServiceCallID{"scheduled", "canceled", "newer", "tombstone", "absent", "too-new", "tombstone-too-new"}
	events := make([]timer.DueTimeReached, len(calls))
	for i, call := range calls {
		events[i] = timer.DueTimeReached{
			Key: key("acme", call), ID: fmt.Sprint("event-", i), DueAt: noon.Add(-time.Second), ReachedAt: noon,
			CorrelationID: "correlation", Trace: timer.Trace{Parent: "parent", State: "state"}, Data: `{"n": 2}`,
		}
	}
	s.same("changed", s.fired(keep, events...), 5)
	for i, call := range calls[:5] {
		e := s.get(key("acme", call))
		s.same(string(call), []any{e.State, e.DueAt, e.ReachedAt, e.CanceledAt}, []any{timer.Reached, noon.Add(-time.Second), noon, time.Time{}})
		events[i].ReachedAt = noon.Add(time.Minute) // of another attempt: what is Reached stays
	}
	s.same("too new", s.get(key("acme", "too-new")).State, timer.Scheduled)
	s.same("too new", s.get(key("acme", "tombstone-too-new")).State, timer.Canceled)
	s.same("changed again", s.fired(keep, events...), 0)
	e := s.get(key("acme", "scheduled"))
	s.same("what the command said", []any{e.CorrelationID, e.Data, e.Version, e.RegisteredAt}, []any{"request", `{"n":1}`, version(ms - 1), noon})
	e = s.get(key("acme", "absent"))
	s.same("what the event says", []any{e.CorrelationID, e.Trace, e.Data, e.CommandID}, []any{"correlation", timer.Trace{Parent: "parent", State: "state"}, `{"n": 2}`, "event-4"})
	s.same("counts", s.stats().Counts, timer.Counts{Scheduled: 1, Reached: 5, Canceled: 1})
	for _, call := range calls[:5] {
		s.same("scheduled again", s.schedule(schedule(key("acme", call), ms+1e12, noon)), []timer.Outcome{timer.WasReached})
	}
	s.same("fired", len(s.fire(noon.Add(30*time.Minute), 10)), 0)
}

// firedTimes brings in events with times that no store keeps.
func firedTimes(s *suite) {
	s.fired(keep,
		timer.DueTimeReached{Key: key("acme", "fine"), DueAt: noon.Add(1), ReachedAt: noon.Add(time.Second + 1)},
		timer.DueTimeReached{Key: key("acme", "early"), DueAt: noon, ReachedAt: noon.Add(-time.Second)})
	e := s.get(key("acme", "fine"))
	s.same("fine", []time.Time{e.DueAt, e.ReachedAt}, []time.Time{noon.Add(time.Millisecond), noon.Add(time.Second)})
	e = s.get(key("acme", "early"))
	s.same("early", []time.Time{e.DueAt, e.ReachedAt}, []time.Time{noon, noon})
}

// firedTwice brings in the events of two generations of a timer, the first of which was
// purged, in any order and together.
func firedTwice(s *suite) {
	old := timer.DueTimeReached{Key: key("acme", "call"), ID: "old", DueAt: noon, ReachedAt: noon}
	young := timer.DueTimeReached{Key: key("acme", "call"), ID: "young", DueAt: noon.Add(2 * keep), ReachedAt: noon.Add(2 * keep)}
	for i, batches := range [][][]timer.DueTimeReached{
		{{old}, {young}}, {{young}, {old}}, {{old, young}}, {{young, old}, {old, young, old}},
	} {
		tenant := timer.TenantID(fmt.Sprint("tenant-", i))
		s.schedule(schedule(key(tenant, "call"), noon.Add(keep+time.Second).UnixMilli(), young.DueAt))
		changed := 0
		for _, events := range batches {
			for j := range events {
				events[j].TenantID = tenant
			}
			changed += s.fired(keep, events...)
		}
		e := s.get(key(tenant, "call"))
		s.same("of both", []any{changed, e.State, e.DueAt}, []any{1, timer.Reached, young.DueAt})
	}
}

func firedLeavesOutbox(s *suite) {
	const n = 300
	events := make([]timer.DueTimeReached, n)
	for i := range events {
		events[i] = event(i)
	}
	s.emit(events...)
	rows := s.head(0, n)
	for i := 0; i < n; i += 3 {
		s.deferRow(rows[i].Place, "events", "failed", noon)
	}
	s.emit(event(n), event(n+1), event(n+2))
	published := append([]timer.DueTimeReached{event(n + 1)}, events[10:n-10]...)
	published[0].ID = envelope.EventID(published[0])
	s.same("changed", s.fired(keep, published...), len(published))
	var want []string
	for i := range n + 3 {
		if i < 10 || i >= n-10 && i != n+1 {
			want = append(want, envelope.EventID(event(i)))
		}
	}
	s.same("left", ids(s.waiting()), want)
	s.same("outbox", s.stats().Outbox, int64(len(want)))
	s.same("again", s.fired(keep, published...), 0)
}

// firedReferenced brings in events of which some have no service call.
func firedReferenced(s *suite) {
	s.schedule(single("call-000003"))
	var events []timer.DueTimeReached
	for _, call := range []timer.ServiceCallID{"call-000001", "none-1", "call-000002", "none-2", "call-000003"} {
		events = append(events, timer.DueTimeReached{Key: key("acme", call), DueAt: noon, ReachedAt: noon})
	}
	s.same("changed", s.fired(keep, events...), 3)
	s.same("changed again", s.fired(keep, events...), 0)
	s.same("of one", s.fired(keep, events[1]), 0)
	s.same("counts", s.stats().Counts, timer.Counts{Reached: 3})
}

func alone(s *suite) {
	ours := errors.New("ours")
	if err := s.store.Alone(s.Context(), func(ctx context.Context) error {
		s.check(ctx.Err())
		return ours
	}); !errors.Is(err, ours) {
		s.Errorf("alone: %v, want what fn returned", err)
	}
	ran := false
	s.must(s.store.Alone(s.Context(), func(context.Context) error { ran = true; return nil }))
	s.same("ran", ran, true)
}

// bothFired brings the same events in by both, while both reach the timers.
func bothFired(a, b *suite) {
	const n = 600
	a.timers("acme", n, noon)
	var changed atomic.Int64
	atOnce(a, b, func(s *suite, _ int) {
		for i := 0; i < n; i += 60 {
			events := make([]timer.DueTimeReached, 70) // of which the last come again
			for j := range events {
				k := key("acme", timer.ServiceCallID(fmt.Sprintf("call-%06d", i+j)))
				events[j] = timer.DueTimeReached{Key: k, CommandID: version(1).CommandID, DueAt: noon.Add(time.Duration(i+j) * time.Millisecond), ReachedAt: noon.Add(time.Hour)}
			}
			fired, err := s.store.Fired(s.Context(), keep, events...)
			s.check(err)
			changed.Add(int64(fired + len(s.reach(noon.Add(time.Hour), 20))))
		}
	})
	a.same("changed", changed.Load(), int64(n+10))
	a.same("counts", a.stats().Counts, timer.Counts{Reached: n + 10})
}
