package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

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

// dataOfVersions has data belong to the command that set the due time.
func dataOfVersions(s *suite) {
	with, without := key("acme", "with"), key("acme", "without")
	command := func(k timer.Key, age int64, data string) timer.ScheduleTimer {
		c := schedule(k, age, noon.Add(time.Hour))
		c.Data = data
		return c
	}
	expect := func(what string, data ...string) {
		s.Helper()
		s.same(what, []string{s.get(with).Data, s.get(without).Data}, data)
	}
	s.schedule(command(with, 5, "5"), command(without, 5, ""))
	expect("scheduled", "5", "")
	s.schedule(command(with, 4, "4"), command(without, 4, "4"))
	expect("after older commands", "5", "")
	s.schedule(command(with, 5, "5"), command(without, 5, ""))
	expect("after the same commands", "5", "")
	s.schedule(command(with, 6, ""), command(without, 6, "null"))
	expect("after newer commands", "", "null")
	s.schedule(command(with, 7, "7"), command(with, 9, "9"), command(with, 8, "8"))
	expect("after several in one call", "9", "null")
	s.cancel(cancel(with, 10), cancel(without, 10))
	expect("canceled", "", "")
	s.schedule(command(with, 11, "11"), command(without, 11, ""))
	expect("scheduled again", "11", "")
	events := s.fire(noon.Add(2*time.Hour), 10)
	slices.SortFunc(events, func(a, b timer.DueTimeReached) int { return a.Key.Compare(b.Key) })
	s.same("fired", []string{events[0].Data, events[1].Data}, []string{"11", ""})
	s.schedule(command(with, 12, "12"))
	expect("reached", "11", "")
	for _, row := range s.head(0, 10) {
		m, err := envelope.Decode(row.Message.Payload)
		s.must(err)
		e := m.Payload.(timer.DueTimeReached)
		s.same("event of "+e.Key.String(), e.Data, map[timer.Key]string{with: "11", without: ""}[e.Key])
	}
	page, err := s.store.List(s.Context(), timer.Filter{TenantID: "acme"})
	s.must(err)
	s.same("listed", []string{page.Entries[0].Data, page.Entries[1].Data}, []string{"11", ""})
}

func registeredOnce(s *suite) {
	k := key("acme", "call-1")
	at := noon.Add(-time.Hour)
	_, err := s.store.Cancel(s.Context(), at, cancel(k, 1))
	s.must(err)
	s.schedule(schedule(k, 2, noon.Add(time.Hour)))
	s.same("after a tombstone", s.get(k).RegisteredAt, at)
	s.cancel(cancel(k, 3))
	s.schedule(schedule(k, 4, noon))
	s.same("after all", s.get(k).RegisteredAt, at)
	s.reach(noon, 1)
	s.same("reached", s.get(k).RegisteredAt, at)
}

func rounding(s *suite) {
	k, zone := key("acme", "call-1"), time.FixedZone("", -7*3600)
	due := noon.Add(time.Hour + 7*time.Millisecond)
	_, err := s.store.Schedule(s.Context(), noon.Add(time.Millisecond-1).In(zone), schedule(k, 1, due.Add(-time.Millisecond+1).In(zone)))
	s.must(err)
	got := s.get(k)
	s.same("due at", got.DueAt, due)
	s.same("registered at", got.RegisteredAt, noon)
	s.same("1 ns early", s.reach(due.Add(-1), 1), []timer.Entry(nil))
	reached := s.reach(due.Add(time.Millisecond-1).In(zone), 1)
	s.same("reached", len(reached), 1)
	s.same("reached at", s.get(k).ReachedAt, due)

	_, err = s.store.Cancel(s.Context(), noon.Add(time.Millisecond-1), cancel(key("acme", "call-2"), 1))
	s.must(err)
	s.same("canceled at", s.get(key("acme", "call-2")).CanceledAt, noon)
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
