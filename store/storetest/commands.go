package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// commandsMeetStates shows the effects of commands on timers in each state; the whole table of
// effects is in the tests of [timer.Status]. The timers have the version 5; an
// older command has 4, a newer one 6.
func commandsMeetStates(s *suite) {
	const older, same, newer = 4, 5, 6
	due, otherDue := noon.Add(time.Hour), noon.Add(2*time.Hour)
	registered, canceled := noon.Add(-time.Minute), noon.Add(-time.Second)

	// command says all that a command can say, entry is the timer that it sets.
	command := func(k timer.Key, age int64, due time.Time) timer.ScheduleTimer {
		c := schedule(k, age, due)
		c.ExpiresAt, c.CorrelationID, c.Data = due.Add(24*time.Hour), fmt.Sprint("request-", age), fmt.Sprint(age)
		c.Trace = timer.Trace{Parent: fmt.Sprint("parent-", age), State: fmt.Sprint("state-", age)}
		return c
	}
	entry := func(c timer.ScheduleTimer) timer.Entry {
		return timer.Entry{
			Key: c.Key, Version: c.Version, State: timer.Scheduled, DueAt: c.DueAt, ExpiresAt: c.ExpiresAt, RegisteredAt: registered,
			CorrelationID: c.CorrelationID, Trace: c.Trace, Data: c.Data,
		}
	}

	// Where timers stand, and how they come there. The commands of the cells
	// arrive at noon.
	apply := func(results []timer.Result, err error) { s.Helper(); s.outcomes(results, err) }
	mark := func(c timer.ScheduleTimer, state timer.State) timer.Entry {
		apply(s.store.Schedule(s.Context(), registered, c))
		e := entry(c)
		e.State, e.ReachedAt = state, canceled
		s.same("marked", s.reach(e.ReachedAt, 10), []timer.Entry{e})
		return e
	}
	states := map[string]func(timer.Key) timer.Entry{
		"absent": func(k timer.Key) timer.Entry { return timer.Entry{Key: k} },
		"Scheduled": func(k timer.Key) timer.Entry {
			c := command(k, same, due)
			apply(s.store.Schedule(s.Context(), registered, c))
			return entry(c)
		},
		"Canceled": func(k timer.Key) timer.Entry {
			c := command(k, same-2, due)
			apply(s.store.Schedule(s.Context(), registered, c))
			apply(s.store.Cancel(s.Context(), canceled, cancel(k, same)))
			e := entry(c)
			e.Version, e.State, e.CanceledAt, e.Data = version(same), timer.Canceled, canceled, ""
			return e
		},
		"tombstone": func(k timer.Key) timer.Entry {
			apply(s.store.Cancel(s.Context(), registered, cancel(k, same)))
			return timer.Entry{Key: k, Version: version(same), State: timer.Canceled, RegisteredAt: registered, CanceledAt: registered}
		},
		"Reached": func(k timer.Key) timer.Entry { return mark(command(k, same, registered), timer.Reached) },
		"Expired": func(k timer.Key) timer.Entry {
			c := command(k, same, registered)
			c.ExpiresAt = canceled.Add(-time.Millisecond)
			return mark(c, timer.Expired)
		},
	}

	// Effects of a command on the timer.
	nothing := func(e timer.Entry) timer.Entry { return e }
	set := func(e timer.Entry) timer.Entry {
		after := entry(command(e.Key, newer, otherDue))
		after.RegisteredAt = e.RegisteredAt // the first acceptance never moves
		if e.State == "" {
			after.RegisteredAt = noon
		}
		return after
	}
	taken := func(e timer.Entry) timer.Entry {
		if e.State == "" {
			e.RegisteredAt = noon
		}
		e.Version, e.State, e.CanceledAt, e.Data = version(newer), timer.Canceled, noon, ""
		return e
	}
	for i, c := range []struct {
		state   string
		command string
		age     int64
		want    timer.Outcome
		after   func(timer.Entry) timer.Entry
	}{
		{"absent", "schedule", newer, timer.DidSchedule, set},
		{"absent", "cancel", newer, timer.DidCancel, taken},
		{"Scheduled", "schedule", older, timer.WasStale, nothing},
		{"Scheduled", "schedule", same, timer.WasSame, nothing},
		{"Scheduled", "schedule", newer, timer.DidReschedule, set},
		{"Scheduled", "cancel", newer, timer.DidCancel, taken},
		{"Canceled", "schedule", older, timer.WasStale, nothing},
		{"Canceled", "schedule", same, timer.WasSame, nothing},
		{"Canceled", "schedule", newer, timer.DidSchedule, set},
		{"Canceled", "cancel", newer, timer.WasCanceled, taken},
		{"tombstone", "schedule", older, timer.WasStale, nothing},
		{"tombstone", "schedule", newer, timer.DidSchedule, set},
		{"tombstone", "cancel", newer, timer.WasCanceled, taken},
		{"Reached", "schedule", same, timer.WasSame, nothing},
		{"Reached", "schedule", newer, timer.WasReached, nothing},
		{"Reached", "cancel", newer, timer.WasReached, nothing},
		{"Expired", "schedule", newer, timer.WasExpired, nothing},
		{"Expired", "cancel", newer, timer.WasExpired, nothing},
	} {
		name := fmt.Sprintf("%s meets %s of age %d", c.state, c.command, c.age)
		k := key("acme", timer.ServiceCallID(fmt.Sprintf("call-%d", i)))
		want := c.after(states[c.state](k))
		var got []timer.Outcome
		if c.command == "schedule" {
			got = s.outcomes(s.store.Schedule(s.Context(), noon, command(k, c.age, otherDue)))
		} else {
			got = s.outcomes(s.store.Cancel(s.Context(), noon, cancel(k, c.age)))
		}
		s.same(name, got, []timer.Outcome{c.want})
		s.same(name, s.get(k), want)
	}
}

func sameKeyInOneCall(s *suite) {
	k, other := key("acme", "call-1"), key("acme", "call-2")
	s.same("schedule", s.schedule(
		schedule(k, 2, noon), schedule(k, 1, noon), schedule(other, 1, noon), schedule(k, 4, noon.Add(4*time.Hour)),
		schedule(k, 4, noon), schedule(k, 3, noon), schedule(other, 1, noon)),
		[]timer.Outcome{
			timer.DidSchedule, timer.WasStale, timer.DidSchedule, timer.DidReschedule,
			timer.WasSame, timer.WasStale, timer.WasSame,
		})
	s.same("due", s.get(k).DueAt, noon.Add(4*time.Hour))
	s.same("cancel", s.cancel(cancel(k, 3), cancel(k, 5), cancel(k, 7), cancel(k, 7), cancel(k, 6)),
		[]timer.Outcome{timer.WasStale, timer.DidCancel, timer.WasCanceled, timer.WasSame, timer.WasStale})
	s.same("version", s.get(k).Version, version(7))
}

// manyCommands mixes keys that are known with new ones, in numbers that a store
// may cut into pieces.
func manyCommands(s *suite) {
	const n = 1234
	var known, all []timer.ScheduleTimer
	want := make([]timer.Outcome, n)
	for i := range n {
		k := key("acme", timer.ServiceCallID(fmt.Sprintf("call-%d", i)))
		all = append(all, schedule(k, 5, noon.Add(time.Duration(i)*time.Second)))
		want[i] = timer.DidSchedule
		switch i % 97 {
		case 3:
			known = append(known, schedule(k, 4, noon))
			want[i] = timer.DidReschedule
		case 50:
			known = append(known, schedule(k, 5, noon))
			want[i] = timer.WasSame
		case 51:
			known = append(known, schedule(k, 6, noon))
			want[i] = timer.WasStale
		}
	}
	s.schedule(known...)
	s.same("outcomes", s.schedule(all...), want)
	s.same("all are there", s.stats().Scheduled, int64(n))

	var cancels []timer.CancelTimer
	for i := range n {
		cancels = append(cancels, cancel(all[i].Key, 6))
		want[i] = timer.DidCancel
		if i%97 == 51 {
			want[i] = timer.WasSame
		}
	}
	s.same("outcomes", s.cancel(cancels...), want)
}

func endedContext(s *suite) {
	ctx, end := context.WithCancel(s.Context())
	end()
	k := key("acme", "call-1")
	_, err := s.store.Schedule(ctx, noon, schedule(k, 1, noon))
	s.passes(err)
	_, err = s.store.Cancel(ctx, noon, cancel(k, 1))
	s.passes(err)
	_, err = s.store.Get(s.Context(), k)
	if !errors.Is(err, timer.ErrNotFound) {
		s.Errorf("get: %v, want ErrNotFound", err)
	}
}

// passes checks that an error is that of an ended context, and none of the
// errors on which the service acts.
func (s *suite) passes(err error) {
	s.Helper()
	if !errors.Is(err, context.Canceled) || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		s.Errorf("error is %v, want that of the context, neither invalid nor fatal", err)
	}
}

// Data that are as long as they may be.
const (
	dataBefore  = `{ "quotes" : "\"\\' é\u0000", "long" : "`
	dataAfter   = "\" \n}"
	dataBetween = timer.MaxDataBytes - len(dataBefore) - len(dataAfter)
)

// longest has identifiers and texts as long as they may be.
var longest = timer.ScheduleTimer{
	Key: timer.Key{
		TenantID:      timer.TenantID(strings.Repeat("T", 64)),
		ServiceCallID: timer.ServiceCallID(strings.Repeat("s.", 64)),
	},
	Version:       timer.Version{TimestampMS: 1<<53 - 1, CommandID: strings.Repeat("~", 128)},
	DueAt:         noon.Add(time.Hour),
	ExpiresAt:     noon.Add(3 * time.Hour),
	CorrelationID: strings.Repeat(`"`, 128),
	Trace: timer.Trace{
		Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		State:  "vendor=" + strings.Repeat("x", 505),
	},
	Data: dataBefore + strings.Repeat("€", dataBetween/3) + strings.Repeat("x", dataBetween%3) + dataAfter,
}

func keepsFields(s *suite) {
	first := longest
	first.TimestampMS, first.CorrelationID, first.Trace, first.Data = 1, "before", timer.Trace{}, "1"
	s.schedule(first)
	s.same("outcome", s.schedule(longest), []timer.Outcome{timer.DidReschedule})
	want := timer.Entry{
		Key: longest.Key, Version: longest.Version, State: timer.Scheduled, CorrelationID: longest.CorrelationID,
		Trace: longest.Trace, Data: longest.Data, DueAt: longest.DueAt, ExpiresAt: longest.ExpiresAt, RegisteredAt: noon,
	}
	s.same("scheduled", s.get(longest.Key), want)
	want.State, want.ReachedAt = timer.Reached, noon.Add(2*time.Hour)
	s.same("from Reach", s.reach(want.ReachedAt, 10), []timer.Entry{want})
	s.same("reached", s.get(longest.Key), want)
}

func keepsNothing(s *suite) {
	full := longest
	full.TimestampMS = 0
	s.schedule(full)
	bare := timer.ScheduleTimer{Key: longest.Key, Version: timer.Version{TimestampMS: 1, CommandID: "!"}, DueAt: noon}
	s.schedule(bare)
	s.same("from Reach", s.reach(noon, 10), []timer.Entry{{
		Key: bare.Key, Version: bare.Version, State: timer.Reached, DueAt: noon, RegisteredAt: noon, ReachedAt: noon,
	}})
}

func rounding(s *suite) {
	k, zone := key("acme", "call-1"), time.FixedZone("", -7*3600)
	due := noon.Add(time.Hour + 7*time.Millisecond)
	c := expiring(k, 1, due.Add(time.Second-time.Millisecond+1).In(zone))
	c.DueAt = due.Add(-time.Millisecond + 1).In(zone)
	_, err := s.store.Schedule(s.Context(), noon.Add(time.Millisecond-1).In(zone), c)
	s.must(err)
	got := s.get(k)
	s.same("due at", got.DueAt, due)
	s.same("expires at", got.ExpiresAt, due.Add(time.Second))
	s.same("registered at", got.RegisteredAt, noon)
	s.same("1 ns early", s.reach(due.Add(-1), 1), []timer.Entry(nil))
	reached := s.reach(due.Add(time.Millisecond-1).In(zone), 1)
	s.same("reached", len(reached), 1)
	s.same("reached at", s.get(k).ReachedAt, due)

	_, err = s.store.Cancel(s.Context(), noon.Add(time.Millisecond-1), cancel(key("acme", "call-2"), 1))
	s.must(err)
	s.same("canceled at", s.get(key("acme", "call-2")).CanceledAt, noon)
	s.schedule(expiring(key("acme", "call-3"), 1, noon.Add(time.Second)))
	s.same("1 ns before the expiry", s.reach(noon.Add(time.Second-1), 1)[0].State, timer.Reached)
}

func years(s *suite) {
	var commands []timer.ScheduleTimer
	for i, due := range []time.Time{
		time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 23, 59, 59, 999e6, time.UTC),
		time.Date(2038, 1, 19, 3, 14, 8, 1e6, time.UTC),
		time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC).AddDate(-62, 0, 0),
		time.Date(2200, 12, 31, 23, 59, 59, 999e6, time.UTC),
	} {
		commands = append(commands, schedule(key("acme", timer.ServiceCallID(fmt.Sprint("call-", i))), 1, due))
	}
	s.schedule(commands...)
	for _, c := range commands {
		s.same("due at", s.get(c.Key).DueAt, c.DueAt)
	}
	next, err := s.store.NextDue(s.Context(), time.Time{})
	s.must(err)
	s.same("next due", next, commands[0].DueAt)
	s.same("all are due in the end", len(s.reach(commands[4].DueAt, 10)), 5)
}

func tenantsApart(s *suite) {
	const call = "call-1"
	acme, beta := key("acme", call), key("beta", call)
	s.schedule(schedule(acme, 1, noon))
	_, err := s.store.Get(s.Context(), beta)
	if !errors.Is(err, timer.ErrNotFound) {
		s.Errorf("beta sees %v, want ErrNotFound", err)
	}
	s.same("cancel of another tenant", s.cancel(cancel(beta, 9)), []timer.Outcome{timer.DidCancel})
	s.same("reached", len(s.reach(noon, 10)), 1)
	s.same("state", []timer.State{s.get(acme).State, s.get(beta).State}, []timer.State{timer.Reached, timer.Canceled})
	s.same("schedule of another tenant", s.schedule(schedule(beta, 10, noon)), []timer.Outcome{timer.DidSchedule})
	list, err := s.store.List(s.Context(), timer.Filter{TenantID: "acme"})
	s.must(err)
	s.same("list of acme", keys(list.Entries), []timer.Key{acme})

	// Tenants that differ in case only, or begin alike, are others.
	for _, tenant := range []timer.TenantID{"ACME", "acm", "acme-", "acme_1"} {
		s.same(string(tenant), s.schedule(schedule(key(tenant, call), 1, noon)), []timer.Outcome{timer.DidSchedule})
	}
}

func keys(entries []timer.Entry) []timer.Key {
	all := make([]timer.Key, len(entries))
	for i, e := range entries {
		all[i] = e.Key
	}
	return all
}
