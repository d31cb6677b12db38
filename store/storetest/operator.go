package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// pages returns the keys of all pages of a list of all tenants, and how many each page has.
func (s *suite) pages(f timer.Filter) (keys []timer.Key, sizes []int) {
	s.Helper()
	s.must(timer.EachPage(s.Context(), &f, s.store.List, func(entries []timer.Entry) error {
		sizes = append(sizes, len(entries))
		for _, e := range entries {
			keys = append(keys, e.Key)
			s.same("an entry", e, s.get(e.Key))
		}
		return nil
	}))
	return keys, sizes
}

func duePages(s *suite) {
	keys, pages := s.pages(timer.Filter{DueBefore: noon, Limit: 10})
	s.same("pages of nothing", pages, []int{0})
	s.same("nothing", keys, []timer.Key(nil))
	var want []timer.Key
	for i := range 25 {
		k := key(timer.TenantID(fmt.Sprint("tenant-", 9-i%7)), timer.ServiceCallID(fmt.Sprint("call-", i)))
		s.schedule(schedule(k, 1, noon.Add(time.Duration(i)*time.Second)))
		want = append(want, k)
	}
	for i, after := range []time.Duration{time.Second, 30 * time.Second} { // canceled, and fired
		k := key("acme", timer.ServiceCallID(fmt.Sprint("other-", i)))
		s.schedule(schedule(k, 1, noon.Add(-after)))
	}
	s.cancel(cancel(key("acme", "other-0"), 2))
	s.same("fired", len(s.fire(noon.Add(-time.Second), 10)), 1)

	keys, pages = s.pages(timer.Filter{DueBefore: noon.Add(20 * time.Second), Limit: 10})
	s.same("those due in 20 s", keys, want[:20])
	s.same("pages", pages, []int{10, 10})
	keys, _ = s.pages(timer.Filter{DueBefore: noon.Add(20*time.Second + time.Millisecond), Limit: 7})
	s.same("and the one due then", keys, want[:21])
	_, pages = s.pages(timer.Filter{DueBefore: noon.Add(time.Hour)})
	s.same("a page without a limit", pages, []int{25})

	for _, after := range []string{"x", "1", "1-", "-", "1-2-3-4", " 1-2", "1-2 "} {
		if _, err := s.store.List(s.Context(), timer.Filter{DueBefore: noon, After: after, Limit: 10}); !errors.Is(err, timer.ErrInvalid) {
			s.Errorf("page after %q: %v, want ErrInvalid", after, err)
		}
	}
}

// overPages has timers that fired, expired, and were canceled, some of them at the same time.
func overPages(s *suite) {
	var want []timer.Key
	for i := range 25 {
		k := key(timer.TenantID(fmt.Sprint("tenant-", 9-i%7)), timer.ServiceCallID(fmt.Sprint("call-", 25-i)))
		at := noon.Add(time.Duration(i/2) * time.Second)
		c := schedule(k, 1, at)
		switch i % 3 {
		case 0:
			c.DueAt, c.ExpiresAt = at.Add(-time.Hour), at
		case 1:
			_, err := s.store.Cancel(s.Context(), at, cancel(k, 2))
			s.must(err)
			want = append(want, k)
			continue
		}
		s.schedule(c)
		s.same("fired", len(s.fire(at, 10)), 1)
		want = append(want, k)
	}
	s.timers("wait", 3, noon.Add(time.Hour))
	list := func(from time.Time, limit int) (keys []timer.Key, pages []int) {
		return s.pages(timer.Filter{OverFrom: from, Limit: limit})
	}
	keys, pages := list(noon, 10)
	s.same("all", keys, want)
	s.same("pages", pages, []int{10, 10, 5})
	keys, _ = list(noon.Add(6*time.Second), 1)
	s.same("from a time on", keys, want[12:])
	keys, pages = list(noon.Add(6*time.Second+1), 100)
	s.same("a time is rounded up", keys, want[14:])
	s.same("one page", pages, []int{11})
	keys, pages = list(noon.Add(time.Hour), 100)
	s.same("none", keys, []timer.Key(nil))
	s.same("an empty page", pages, []int{0})
	for _, f := range []timer.Filter{
		{OverFrom: noon, After: "x"}, {OverFrom: noon, After: "1"}, {OverFrom: noon, TenantID: "acme"}, {OverFrom: noon, DueBefore: noon}, {OverFrom: noon, CorrelationID: "request"},
	} {
		if _, err := s.store.List(s.Context(), f); !errors.Is(err, timer.ErrInvalid) {
			s.Errorf("filter %+v: %v, want ErrInvalid", f, err)
		}
	}
}

// Many timers of one due time are in no order, but come once.
func dueTogether(s *suite) {
	const many = 250
	var commands []timer.ScheduleTimer
	for i := range many {
		commands = append(commands, schedule(key(timer.TenantID(fmt.Sprint("tenant-", i%3)), timer.ServiceCallID(fmt.Sprint("call-", many-i))), 1, noon))
	}
	s.schedule(commands...)
	s.timers("soon", 3, noon.Add(-time.Second))
	s.timers("late", 3, noon.Add(time.Second))
	keys, pages := s.pages(timer.Filter{DueBefore: noon.Add(time.Minute), Limit: 10})
	seen := make(map[timer.Key]bool)
	for _, k := range keys {
		if seen[k] {
			s.Errorf("%s twice", k)
		}
		seen[k] = true
	}
	s.same("timers", len(seen), many+6)
	s.same("pages", len(pages), 26)
	s.same("first", keys[0], key("soon", "call-000000"))
	s.same("last", keys[len(keys)-1], key("late", "call-000002"))
}

func overdue(s *suite) {
	count := func(tenant timer.TenantID, now time.Time) timer.Overdue {
		s.Helper()
		o, err := s.store.Overdue(s.Context(), tenant, now)
		s.must(err)
		return o
	}
	s.same("nothing", count("", noon), timer.Overdue{})
	s.timers("acme", 3, noon)
	s.timers("beta", 2, noon.Add(time.Millisecond))
	s.same("due now", count("", noon), timer.Overdue{})
	s.same("due before now", count("", noon.Add(2*time.Millisecond)), timer.Overdue{Timers: 3, Oldest: noon})
	s.same("of one", count("beta", noon.Add(2*time.Millisecond)), timer.Overdue{Timers: 1, Oldest: noon.Add(time.Millisecond)})
	s.same("of another", count("acme", noon.Add(time.Hour)), timer.Overdue{Timers: 3, Oldest: noon})
	s.same("of an unknown one", count("gamma", noon.Add(time.Hour)), timer.Overdue{})
	s.timers("many", timer.MaxOverdue+10, noon)
	s.same("more than are counted", count("", noon.Add(time.Hour)), timer.Overdue{Timers: timer.MaxOverdue, Oldest: noon})
	s.same("of many", count("many", noon.Add(time.Hour)), timer.Overdue{Timers: timer.MaxOverdue, Oldest: noon})
}

func (s *suite) delivery(id string) timer.Delivery {
	s.Helper()
	d, err := s.store.Delivery(s.Context(), id)
	s.must(err)
	return d
}

func delivery(s *suite) {
	s.timers("acme", 4, noon.Add(-time.Minute))
	events := s.fire(noon, 10)
	ids := make(map[timer.ServiceCallID]string)
	for _, e := range events {
		ids[e.ServiceCallID] = envelope.EventID(e)
	}
	retry := noon.Add(time.Minute)
	for i, row := range s.head(0, 10) {
		switch i {
		case 0:
			s.must(s.store.Delete(s.Context(), row.Place))
		case 1:
			s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: row.Place, Destination: "svc.acme", Reason: "no leader", RetryAt: retry}))
		case 2:
			s.must(s.store.Park(s.Context(), noon.Add(time.Hour), row.Place, "too large"))
		}
		want := []timer.Delivery{
			{State: timer.Published},
			{State: timer.Deferred, Since: noon, Attempts: 1, Reason: "no leader", Destination: "svc.acme", RetryAt: retry},
			{State: timer.Parked, Since: noon.Add(time.Hour), Attempts: 1, Reason: "too large"},
			{State: timer.Waiting, Since: noon},
		}[i]
		s.same(fmt.Sprintf("delivery %d", i), s.delivery(row.Message.UUID), want)
	}
	for call, id := range ids {
		if e := s.get(key("acme", call)); envelope.EventID(e.Event()) != id {
			s.Errorf("the event of %s has the id %s, want %s", call, envelope.EventID(e.Event()), id)
		}
	}
	first := s.stats()
	if first.DueAt.Before(noon.Add(-time.Minute)) || first.DueAt.After(noon.Add(-time.Minute+4*time.Millisecond)) {
		s.Errorf("the oldest event was due at %v", first.DueAt)
	}
}

func deliveryUnknown(s *suite) {
	events := make([]timer.DueTimeReached, timer.DeliveryWalk)
	for i := range events {
		events[i] = event(i)
	}
	s.emit(events...)
	s.same("the last that is read", s.delivery(s.head(int64(0), timer.DeliveryWalk)[timer.DeliveryWalk-1].Message.UUID).State, timer.Waiting)
	s.same("one that is not there", s.delivery("another").State, timer.DeliveryUnknown)
	s.must(s.store.Delete(s.Context(), s.head(0, 1)[0].Place))
	s.same("one that is not there, of fewer", s.delivery("another"), timer.Delivery{State: timer.Published})
}

func identities(s *suite) {
	id, name, err := s.store.Identity(s.Context())
	if err != nil || name == "" {
		s.Fatalf("identity %q, %q, %v", id, name, err)
	}
	if u, err := uuid.Parse(id); err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 || u.String() != id {
		s.Errorf("identity %q is no UUID of version 4: %v", id, err)
	}
	if again, _, err := s.store.Identity(s.Context()); err != nil || again != id {
		s.Errorf("identity %q, then %q, %v", id, again, err)
	}
	if other, _, err := s.open(s).Identity(s.Context()); err != nil || other == id {
		s.Errorf("another database has the identity %q too, %v", other, err)
	}
}

func checks(s *suite) {
	if err := s.store.Check(s.Context()); err != nil {
		s.Errorf("check: %v", err)
	}
	ended, end := context.WithCancel(s.Context())
	end()
	if err := s.store.Check(ended); err == nil {
		s.Error("check of a context that has ended: no error")
	}
}
