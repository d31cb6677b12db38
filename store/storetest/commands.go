package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// commandsMeetStates is the table of states and commands. What a command meets
// has the version 5; an older command has 4, a newer one 6.
func commandsMeetStates(s *suite) {
	const older, same, newer = 4, 5, 6
	due, otherDue := noon.Add(time.Hour), noon.Add(2*time.Hour)
	registered, canceled := noon.Add(-time.Minute), noon.Add(-time.Second)

	// Where timers stand, and how they come there. The commands of the cells
	// arrive at noon.
	entry := func(k timer.Key, state timer.State, due time.Time) timer.Entry {
		return timer.Entry{Key: k, Version: version(same), State: state, DueAt: due, RegisteredAt: registered}
	}
	apply := func(results []timer.Result, err error) { s.Helper(); s.outcomes(results, err) }
	states := map[string]func(timer.Key) timer.Entry{
		"absent": func(k timer.Key) timer.Entry { return timer.Entry{Key: k} },
		"Scheduled": func(k timer.Key) timer.Entry {
			apply(s.store.Schedule(s.Context(), registered, schedule(k, same, due)))
			return entry(k, timer.Scheduled, due)
		},
		"Canceled": func(k timer.Key) timer.Entry {
			apply(s.store.Schedule(s.Context(), registered, schedule(k, same-2, due)))
			apply(s.store.Cancel(s.Context(), canceled, cancel(k, same)))
			e := entry(k, timer.Canceled, due)
			e.CanceledAt = canceled
			return e
		},
		"tombstone": func(k timer.Key) timer.Entry {
			apply(s.store.Cancel(s.Context(), registered, cancel(k, same)))
			e := entry(k, timer.Canceled, time.Time{})
			e.CanceledAt = registered
			return e
		},
		"Reached": func(k timer.Key) timer.Entry {
			e := entry(k, timer.Reached, registered)
			apply(s.store.Schedule(s.Context(), registered, schedule(k, same, e.DueAt)))
			e.ReachedAt = canceled
			s.same("reached", s.reach(e.ReachedAt, 10), []timer.Entry{e})
			return e
		},
		"Expired": func(k timer.Key) timer.Entry {
			e := entry(k, timer.Expired, registered)
			e.ExpiresAt, e.ReachedAt = canceled.Add(-time.Millisecond), canceled
			c := schedule(k, same, e.DueAt)
			c.ExpiresAt = e.ExpiresAt
			apply(s.store.Schedule(s.Context(), registered, c))
			s.same("expired", s.reach(e.ReachedAt, 10), []timer.Entry{e})
			return e
		},
	}

	// What a command makes of the timer.
	nothing := func(e timer.Entry) timer.Entry { return e }
	changed := func(e timer.Entry) timer.Entry {
		e.Version = version(newer)
		if e.RegisteredAt.IsZero() {
			e.RegisteredAt = noon
		}
		return e
	}
	set := func(e timer.Entry) timer.Entry {
		e = changed(e)
		e.State, e.DueAt, e.CanceledAt = timer.Scheduled, otherDue, time.Time{}
		return e
	}
	taken := func(e timer.Entry) timer.Entry {
		e = changed(e)
		e.State, e.CanceledAt = timer.Canceled, noon
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
		{"Scheduled", "cancel", older, timer.WasStale, nothing},
		{"Scheduled", "cancel", same, timer.WasSame, nothing},
		{"Scheduled", "cancel", newer, timer.DidCancel, taken},
		{"Canceled", "schedule", older, timer.WasStale, nothing},
		{"Canceled", "schedule", same, timer.WasSame, nothing},
		{"Canceled", "schedule", newer, timer.DidSchedule, set},
		{"Canceled", "cancel", older, timer.WasStale, nothing},
		{"Canceled", "cancel", same, timer.WasSame, nothing},
		{"Canceled", "cancel", newer, timer.WasCanceled, taken},
		{"tombstone", "schedule", older, timer.WasStale, nothing},
		{"tombstone", "schedule", same, timer.WasSame, nothing},
		{"tombstone", "schedule", newer, timer.DidSchedule, set},
		{"tombstone", "cancel", older, timer.WasStale, nothing},
		{"tombstone", "cancel", same, timer.WasSame, nothing},
		{"tombstone", "cancel", newer, timer.WasCanceled, taken},
		{"Reached", "schedule", older, timer.WasReached, nothing},
		{"Reached", "schedule", same, timer.WasSame, nothing},
		{"Reached", "schedule", newer, timer.WasReached, nothing},
		{"Reached", "cancel", older, timer.WasReached, nothing},
		{"Reached", "cancel", same, timer.WasSame, nothing},
		{"Reached", "cancel", newer, timer.WasReached, nothing},
		{"Expired", "schedule", older, timer.WasExpired, nothing},
		{"Expired", "schedule", same, timer.WasSame, nothing},
		{"Expired", "schedule", newer, timer.WasExpired, nothing},
		{"Expired", "cancel", older, timer.WasExpired, nothing},
		{"Expired", "cancel", same, timer.WasSame, nothing},
		{"Expired", "cancel", newer, timer.WasExpired, nothing},
	} {
		name := fmt.Sprintf("%s meets %s of age %d", c.state, c.command, c.age)
		k := key("acme", timer.ServiceCallID(fmt.Sprintf("call-%d", i)))
		want := c.after(states[c.state](k))
		var got []timer.Outcome
		if c.command == "schedule" {
			got = s.outcomes(s.store.Schedule(s.Context(), noon, schedule(k, c.age, otherDue)))
		} else {
			got = s.outcomes(s.store.Cancel(s.Context(), noon, cancel(k, c.age)))
		}
		s.same(name, got, []timer.Outcome{c.want})
		s.same(name, s.get(k), want)
	}
}

// newestWins applies five commands in each of their 120 orders.
func newestWins(s *suite) {
	type command struct {
		age    int64
		cancel bool
	}
	for n, commands := range [][]command{
		{{1, false}, {2, false}, {3, true}, {4, true}, {5, false}},
		{{1, false}, {2, true}, {3, false}, {4, false}, {5, true}},
		{{1, true}, {2, false}, {3, true}, {4, false}, {5, true}},
	} {
		orders := permutations(len(commands))
		keyOf := func(i int) timer.Key { return key("acme", timer.ServiceCallID(fmt.Sprintf("call-%d-%d", n, i))) }
		dueOf := func(age int64) time.Time { return noon.Add(time.Duration(age) * time.Hour) }
		for turn := range commands { // each order has a key of its own
			var schedules []timer.ScheduleTimer
			var cancels []timer.CancelTimer
			for i, order := range orders {
				if c := commands[order[turn]]; c.cancel {
					cancels = append(cancels, cancel(keyOf(i), c.age))
				} else {
					schedules = append(schedules, schedule(keyOf(i), c.age, dueOf(c.age)))
				}
			}
			s.schedule(schedules...)
			s.cancel(cancels...)
		}
		newest := commands[len(commands)-1]
		for i, order := range orders {
			got := s.get(keyOf(i))
			if newest.cancel {
				s.same(fmt.Sprint(order), []any{got.State, got.Version}, []any{timer.Canceled, version(newest.age)})
			} else {
				s.same(fmt.Sprint(order), []any{got.State, got.Version, got.DueAt, got.CanceledAt},
					[]any{timer.Scheduled, version(newest.age), dueOf(newest.age), time.Time{}})
			}
		}
	}

	// Of equal times the greater id wins.
	a, b := schedule(key("acme", "equal"), 1, noon), schedule(key("acme", "equal"), 1, noon.Add(time.Hour))
	a.CommandID, b.CommandID = "B", "a" // bytes are compared, not letters
	s.same("first", s.schedule(a), []timer.Outcome{timer.DidSchedule})
	s.same("greater id", s.schedule(b), []timer.Outcome{timer.DidReschedule})
	s.same("lesser id", s.schedule(a), []timer.Outcome{timer.WasTied})
}

func permutations(n int) (all [][]int) {
	var extend func(head []int)
	extend = func(head []int) {
		if len(head) == n {
			all = append(all, slices.Clone(head))
			return
		}
		for i := range n {
			if !slices.Contains(head, i) {
				extend(append(head, i))
			}
		}
	}
	extend(make([]int, 0, n))
	return all
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

// mixedCommands sends calls in which keys come again and again, against a model
// that goes through them one by one.
func mixedCommands(s *suite) {
	type status struct {
		version timer.Version
		state   timer.State
	}
	model := make(map[timer.Key]status)
	random := rand.New(rand.NewPCG(1, 2)) // the same every time
	for round := range 40 {
		commands := make([]timer.ScheduleTimer, 1+random.IntN(120))
		want := make([]timer.Outcome, len(commands))
		for i := range commands {
			k := key(timer.TenantID(fmt.Sprint("t-", random.IntN(3))), timer.ServiceCallID(fmt.Sprint("call-", random.IntN(20*(round+1)))))
			c := schedule(k, random.Int64N(50), noon.Add(time.Duration(random.IntN(1000))*time.Second))
			commands[i] = c
			before, known := model[k]
			switch {
			case !known:
				want[i] = timer.DidSchedule
			case before.version == c.Version:
				want[i] = timer.WasSame
			case before.state == timer.Reached:
				want[i] = timer.WasReached
			case c.TimestampMS < before.version.TimestampMS:
				want[i] = timer.WasStale
			case c.Version.Compare(before.version) < 0:
				want[i] = timer.WasTied
			case before.state == timer.Canceled:
				want[i] = timer.DidSchedule
			default:
				want[i] = timer.DidReschedule
			}
			if want[i] == timer.DidSchedule || want[i] == timer.DidReschedule {
				model[k] = status{c.Version, timer.Scheduled}
			}
		}
		s.same(fmt.Sprintf("outcomes of call %d", round), s.schedule(commands...), want)
		for _, e := range s.reach(noon.Add(time.Duration(random.IntN(300))*time.Second), 20) {
			model[e.Key] = status{model[e.Key].version, timer.Reached}
		}
		for k, before := range model {
			if before.state == timer.Scheduled && random.IntN(10) == 0 {
				v := timer.Version{TimestampMS: before.version.TimestampMS, CommandID: before.version.CommandID + "x"}
				s.same("canceled", s.cancel(timer.CancelTimer{Key: k, Version: v}), []timer.Outcome{timer.DidCancel})
				model[k] = status{v, timer.Canceled}
			}
		}
	}
	for k, want := range model {
		got := s.get(k)
		s.same(k.String(), []any{got.Version, got.State}, []any{want.version, want.state})
	}
}

func noCommands(s *suite) {
	s.same("schedule", s.schedule(), []timer.Outcome{})
	s.same("cancel", s.cancel(), []timer.Outcome{})
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

// passes checks that an error is that of an ended context, which is none of
// those that change what the service does.
func (s *suite) passes(err error) {
	s.Helper()
	if !errors.Is(err, context.Canceled) || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		s.Errorf("error is %v, want that of the context, neither invalid nor fatal", err)
	}
}
