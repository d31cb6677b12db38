package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
