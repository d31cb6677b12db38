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

func (s *suite) upcoming(tenant timer.TenantID, from time.Time, width time.Duration, n int) []int64 {
	s.Helper()
	counts, err := s.store.Upcoming(s.Context(), tenant, from, width, n, timer.MaxUpcoming)
	s.must(err)
	return counts
}

func upcoming(s *suite) {
	s.same("nothing", s.upcoming("", noon, time.Minute, 3), []int64{0, 0, 0})
	s.schedule(
		schedule(key("acme", "before"), 1, noon.Add(-time.Millisecond)),
		schedule(key("acme", "first"), 1, noon),
		schedule(key("acme", "last of the first"), 1, noon.Add(time.Minute-time.Millisecond)),
		schedule(key("acme", "second"), 1, noon.Add(time.Minute)),
		schedule(key("beta", "second"), 1, noon.Add(90*time.Second)),
		schedule(key("beta", "fourth"), 1, noon.Add(4*time.Minute-time.Millisecond)),
		schedule(key("beta", "fifth"), 1, noon.Add(4*time.Minute)),
		schedule(key("beta", "canceled"), 1, noon.Add(time.Second)),
	)
	s.cancel(cancel(key("beta", "canceled"), 2))
	s.same("of all", s.upcoming("", noon, time.Minute, 4), []int64{2, 2, 0, 1})
	s.same("of one", s.upcoming("acme", noon, time.Minute, 4), []int64{2, 1, 0, 0})
	s.same("of another", s.upcoming("beta", noon, time.Minute, 5), []int64{0, 1, 0, 1, 1})
	s.same("of none", s.upcoming("gamma", noon, time.Minute, 2), []int64{0, 0})
	s.same("from within a millisecond", s.upcoming("acme", noon.Add(time.Microsecond), time.Minute, 2), []int64{2, 0})
	s.same("a width that is rounded up", s.upcoming("acme", noon, time.Microsecond, 3), []int64{1, 0, 0})
	s.same("a long one", s.upcoming("", noon.Add(-time.Hour), timer.MaxIntervalWidth, timer.MaxIntervals)[0], int64(7))
	s.same("fired", len(s.fire(noon, 10)), 2)
	s.same("of what fired nothing", s.upcoming("acme", noon.Add(-time.Minute), time.Minute, 3), []int64{0, 1, 1})
}

func upcomingMany(s *suite) {
	s.timers("acme", timer.MaxUpcoming+5, noon)
	s.timers("beta", 3, noon)
	s.same("more than are counted", s.upcoming("", noon, time.Minute, 2), []int64{timer.MaxUpcoming, 0})
	s.same("of one", s.upcoming("acme", noon, time.Minute, 2), []int64{timer.MaxUpcoming, 0})
	s.same("of another", s.upcoming("beta", noon, time.Minute, 2), []int64{3, 0})
	var many []timer.ScheduleTimer
	for i := range 600 {
		k := key(timer.TenantID(fmt.Sprint("tenant-", i)), "call")
		many = append(many, schedule(k, 1, noon.Add(time.Duration(2+i%2)*time.Minute)))
	}
	s.schedule(many...)
	s.same("of many tenants", s.upcoming("", noon, time.Minute, 4), []int64{timer.MaxUpcoming, 0, 300, 300})
	s.same("of many tenants, more than are counted", s.upcoming("", noon, 2*time.Minute, 2), []int64{timer.MaxUpcoming, timer.MaxUpcoming})
	s.same("all of them in two intervals", s.upcoming("acme", noon, timer.MaxUpcoming/2*time.Millisecond, 3), []int64{timer.MaxUpcoming / 2, timer.MaxUpcoming / 2, 5})
}

func upcomingLimited(s *suite) {
	s.timers("acme", 2*timer.MaxUpcoming, noon)
	var many []timer.ScheduleTimer
	for i := range 600 {
		many = append(many, schedule(key(timer.TenantID(fmt.Sprint("tenant-", i)), "call"), 1, noon.Add(time.Minute)))
	}
	s.schedule(many...)
	for _, c := range []struct {
		tenant timer.TenantID
		width  time.Duration
		n      int
		limit  int
		want   []int64
	}{
		{"", time.Minute, 1, 10_000, []int64{2 * timer.MaxUpcoming}},
		{"", time.Hour, 1, 10_000, []int64{2*timer.MaxUpcoming + 600}},
		{"", time.Hour, 1, 1200, []int64{1200}},
		{"acme", time.Hour, 1, 10_000, []int64{2 * timer.MaxUpcoming}},
		{"", time.Minute, 2, 700, []int64{700, 600}},
	} {
		counts, err := s.store.Upcoming(s.Context(), c.tenant, noon, c.width, c.n, c.limit)
		s.must(err)
		s.same(fmt.Sprintf("%+v", c), counts, c.want)
	}
}

func upcomingRefused(s *suite) {
	for _, c := range []struct {
		width time.Duration
		n     int
	}{{0, 1}, {-time.Second, 1}, {timer.MaxIntervalWidth + 1, 1}, {time.Minute, 0}, {time.Minute, -1}, {time.Minute, timer.MaxIntervals + 1}} {
		if _, err := s.store.Upcoming(s.Context(), "", noon, c.width, c.n, 1); !errors.Is(err, timer.ErrInvalid) {
			s.Errorf("%d of %v: %v, want ErrInvalid", c.n, c.width, err)
		}
	}
}

// park emits an event for each tenant and parks it, the first at noon and each a
// second later. It returns their numbers in the outbox.
func (s *suite) park(tenants ...timer.TenantID) (seqs []int64) {
	s.Helper()
	events := make([]timer.DueTimeReached, len(tenants))
	for i, tenant := range tenants {
		events[i] = event(i)
		events[i].Key.TenantID, events[i].CorrelationID = tenant, fmt.Sprint("request-\u00e9\"-", i)
	}
	s.emit(events...)
	for i, row := range s.head(0, len(tenants)) {
		s.must(s.store.Park(s.Context(), noon.Add(time.Duration(i)*time.Second), row.Place, fmt.Sprint("refused ", i)))
		seqs = append(seqs, row.Seq)
	}
	return seqs
}

func (s *suite) parked(tenant timer.TenantID, before int64, limit int) []timer.ParkedEvent {
	s.Helper()
	events, err := s.store.Parked(s.Context(), tenant, before, limit)
	s.must(err)
	return events
}

// numbers returns those of parked events.
func numbers(events []timer.ParkedEvent) (seqs []int64) {
	for _, e := range events {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func parkedPages(s *suite) {
	s.same("nothing", s.parked("", 0, 10), []timer.ParkedEvent(nil))
	seqs := s.park("acme", "beta", "acme", "acme", "beta")
	s.same("all", numbers(s.parked("", 0, 0)), []int64{seqs[4], seqs[3], seqs[2], seqs[1], seqs[0]})
	s.same("a page", numbers(s.parked("", 0, 2)), []int64{seqs[4], seqs[3]})
	s.same("the next", numbers(s.parked("", seqs[3], 2)), []int64{seqs[2], seqs[1]})
	s.same("the last", numbers(s.parked("", seqs[1], 2)), seqs[:1])
	s.same("before the oldest", numbers(s.parked("", seqs[0], 2)), []int64(nil))
	s.same("of a tenant", numbers(s.parked("acme", 0, 2)), []int64{seqs[3], seqs[2]})
	s.same("the next of it", numbers(s.parked("acme", seqs[2], 2)), seqs[:1])
	s.same("of another", numbers(s.parked("beta", 0, 10)), []int64{seqs[4], seqs[1]})
	s.same("of a third", numbers(s.parked("gamma", 0, 10)), []int64(nil))
	want := event(2)
	want.CorrelationID = "request-\u00e9\"-2"
	got := s.parked("acme", seqs[3], 1)[0]
	if !strings.Contains(string(got.Body), `"serviceCallId":"call-2"`) {
		s.Errorf("body %s", got.Body)
	}
	got.Body = nil
	s.same("an event", got, timer.ParkedEvent{
		Seq: seqs[2], ID: envelope.EventID(want), TenantID: "acme", ServiceCallID: "call-2", CorrelationID: want.CorrelationID,
		AppendedAt: timer.RoundDown(want.ReachedAt), ParkedAt: noon.Add(2 * time.Second), Attempts: 1, Reason: "refused 2",
	})
}

func (s *suite) retry(now time.Time, seqs ...int64) int {
	s.Helper()
	retried, err := s.store.RetryParked(s.Context(), now, seqs...)
	s.must(err)
	return retried
}

func retryParked(s *suite) {
	seqs := s.park("acme", "beta", "acme")
	before := s.parked("", 0, 10)
	slices.Reverse(before)
	s.emit(event(7))
	waits := s.head(0, 10)[0]
	later := noon.Add(time.Hour)
	s.same("retried", s.retry(later, seqs[2], seqs[0]), 2)
	s.same("left", numbers(s.parked("", 0, 10)), seqs[1:2])
	rows := s.head(0, 10)
	s.same("outbox", ids(rows), []string{waits.Message.UUID, before[0].ID, before[2].ID})
	for i, row := range rows[1:] {
		e := before[2*i]
		if row.Seq <= waits.Seq || row.Attempts != 0 {
			s.Errorf("row %d after %d with %d attempts", row.Seq, waits.Seq, row.Attempts)
		}
		s.same("body", string(row.Message.Payload), string(e.Body))
		s.same("tenant", row.Message.Metadata.Get(envelope.HeaderTenantID), string(e.TenantID))
		s.same("delivery", s.delivery(e.ID), timer.Delivery{State: timer.Waiting, Since: later})
	}
	st := s.stats()
	s.same("outbox and parked", []int64{st.Outbox, st.Parked}, []int64{3, 1})
	s.must(s.store.Park(s.Context(), later, rows[1].Place, "refused again"))
	s.same("parked again", numbers(s.parked("", 0, 1)), []int64{rows[1].Seq})
	s.same("attempts", s.parked("", 0, 1)[0].Attempts, 1)
}

func discardParked(s *suite) {
	s.timers("acme", 2, noon.Add(-time.Minute))
	s.fire(noon, 10)
	rows := s.head(0, 10)
	for _, row := range rows {
		s.must(s.store.Park(s.Context(), noon, row.Place, "refused"))
	}
	discarded, err := s.store.DiscardParked(s.Context(), rows[0].Seq)
	s.must(err)
	s.same("discarded", discarded, 1)
	s.same("left", numbers(s.parked("", 0, 10)), []int64{rows[1].Seq})
	s.same("outbox", len(s.head(0, 10)), 0)
	s.same("timers", s.counted("acme"), timer.Counts{Reached: 2})
}

func parkedGone(s *suite) {
	s.same("none", s.retry(noon), 0)
	seqs := s.park("acme", "acme", "acme")
	s.same("twice in one call, and one that never was", s.retry(noon, seqs[0], 1<<62, seqs[0]), 1)
	s.same("again", s.retry(noon, seqs[0], seqs[1]), 1)
	for _, want := range []int{1, 0} {
		discarded, err := s.store.DiscardParked(s.Context(), append(seqs, seqs[2])...)
		s.must(err)
		s.same("discarded", discarded, want)
	}
	if n, err := s.store.DiscardParked(s.Context()); n != 0 || err != nil {
		s.Errorf("discard nothing: %d, %v", n, err)
	}
	s.same("outbox", len(s.head(0, 10)), 2)
}

// twenty returns a tenant twenty times.
func twenty(tenant timer.TenantID) (tenants []timer.TenantID) {
	for range 20 {
		tenants = append(tenants, tenant)
	}
	return tenants
}

func (s *suite) firing(now time.Time) timer.Pauses {
	s.Helper()
	p, err := s.store.Firing(s.Context(), now)
	s.must(err)
	return p
}

func (s *suite) pause(p timer.Pause) {
	s.Helper()
	s.must(s.store.Decide(s.Context(), timer.Decision{TenantID: p.TenantID, Kind: timer.DecidedFiring, Pause: p, At: p.Since}))
}

func (s *suite) resume(tenant timer.TenantID) {
	s.Helper()
	s.must(s.store.Decide(s.Context(), timer.Decision{TenantID: tenant, Kind: timer.DecidedFiring, At: noon}))
}

func pauses(s *suite) {
	s.same("at first", s.firing(noon), timer.Pauses{})
	s.resume("")
	s.pause(timer.Pause{Since: noon.Add(time.Microsecond), By: "op\x00s\xff"})
	paused := timer.Pauses{"": {Since: noon, By: "ops"}}
	s.same("paused", s.firing(far), paused)
	s.pause(timer.Pause{Since: noon.Add(time.Hour), By: "another"})
	s.same("paused again", s.firing(noon), paused)
	s.timers("acme", 2, noon)
	s.same("commands", s.counted("acme"), timer.Counts{Scheduled: 2})
	for range 2 {
		s.resume("")
		s.same("resumed", s.firing(noon), timer.Pauses{})
	}
	s.pause(timer.Pause{Since: noon, By: strings.Repeat("x", timer.MaxPausedBy-1) + "\u00e9"})
	s.same("cut", s.firing(noon)[""], timer.Pause{Since: noon, By: strings.Repeat("x", timer.MaxPausedBy-1)})
	for name, p := range map[string]timer.Pause{
		"a pause that is over":       {Since: noon, Until: noon},
		"a pause of no valid tenant": {Since: noon, TenantID: timer.NoTenant},
	} {
		if err := s.store.Decide(s.Context(), timer.Decision{TenantID: p.TenantID, Kind: timer.DecidedFiring, Pause: p, At: noon}); !errors.Is(err, timer.ErrInvalid) {
			s.Errorf("%s: %v", name, err)
		}
	}
}

func pausesOfTenants(s *suite) {
	acme := timer.Pause{TenantID: "acme", Since: noon, By: "ann"}
	all := timer.Pause{Since: noon, By: "bob"}
	s.pause(acme)
	s.pause(all)
	s.same("both", s.firing(noon), timer.Pauses{"acme": acme, "": all})
	s.resume("beta")
	s.resume("")
	s.same("one is left", s.firing(noon), timer.Pauses{"acme": acme})
	s.pause(all)
	s.resume("acme")
	s.same("the other is left", s.firing(noon), timer.Pauses{"": all})
}

func pausesEnd(s *suite) {
	hour, day := noon.Add(time.Hour), noon.Add(24*time.Hour)
	p := timer.Pause{TenantID: "acme", Since: noon, Until: hour, By: "ann"}
	s.pause(p)
	s.same("before its end", s.firing(hour.Add(-time.Millisecond)), timer.Pauses{"acme": p})
	s.same("at its end", s.firing(hour), timer.Pauses{})
	s.pause(timer.Pause{TenantID: "acme", Since: noon.Add(time.Minute), Until: day, By: "bob"})
	p.Until = day
	s.same("longer", s.firing(hour), timer.Pauses{"acme": p})
	s.pause(timer.Pause{TenantID: "acme", Since: hour, By: "bob"})
	p.Until = time.Time{}
	s.same("until it is resumed", s.firing(far), timer.Pauses{"acme": p})
	p.Until = day
	s.pause(timer.Pause{TenantID: "acme", Since: hour, Until: day})
	again := timer.Pause{TenantID: "acme", Since: day, By: "eve"}
	s.pause(again)
	s.same("anew after its end", s.firing(day), timer.Pauses{"acme": again})
}

// pausedDelaysNobody has a tenant that may fire nothing and has more due than ten batches
// hold, and others with a few.
func pausedDelaysNobody(s *suite) {
	s.timers("paused", 10_000, noon.Add(-time.Hour))
	for _, tenant := range []timer.TenantID{"acme", "beta", "zeta"} {
		s.timers(tenant, 700, noon)
	}
	allow := func(tenant timer.TenantID) int {
		if tenant == "paused" {
			return 0
		}
		return 1 << 30
	}
	now, fired := noon.Add(time.Minute), 0
	for batches := 0; fired < 2100; batches++ {
		entries := s.reachAllowed(now, 1000, allow)
		if len(entries) == 0 || batches > 3 {
			s.Fatalf("%d of 2100 timers fired in %d batches", fired, batches)
		}
		of := make(map[timer.TenantID]int)
		for _, e := range entries {
			of[e.TenantID]++
		}
		s.same("of the one that is paused", of["paused"], 0)
		if batches == 0 && (of["acme"] < 333 || of["beta"] < 333 || of["zeta"] < 333) {
			s.Errorf("shares of the first batch: %v", of)
		}
		fired += len(entries)
	}
	s.same("then", len(s.reachAllowed(now, 1000, allow)), 0)
	s.same("what is paused waits", s.counted("paused"), timer.Counts{Scheduled: 10_000})
	s.same("resumed", len(s.reach(now, 1000)), 1000)
}

// forgetAll forgets in steps of a limit.
func (s *suite) forgetAll(tenant timer.TenantID, limit int) (sum timer.Counts) {
	s.Helper()
	for {
		c, err := s.store.Forget(s.Context(), tenant, time.Time{}, limit)
		s.must(err)
		if c.Total() > int64(limit) {
			s.Errorf("forgot %d in a step of %d", c.Total(), limit)
		}
		if sum = sum.Add(c); c.Total() == 0 {
			return sum
		}
	}
}

func forget(s *suite) {
	s.same("nothing", s.forgetAll("acme", 10), timer.Counts{})
	seqs := s.park("acme", "beta", "acme", "acme")
	for _, tenant := range []timer.TenantID{"acme", "beta", "acme-2"} {
		s.timers(tenant, 25, noon)
		s.cancel(cancel(key(tenant, "call-000024"), 2), cancel(key(tenant, "tombstone"), 1))
	}
	s.same("reached", len(s.reach(noon.Add(2*time.Millisecond), 100)), 9)
	s.putInbox(manyWaiting("acme", 5)...)
	s.putInbox(waitingMessage("beta", "of another"), selection("acme", "log", 1, noon))
	c, err := s.store.Forget(s.Context(), "acme", time.Time{}, 0)
	s.must(err)
	s.same("a step of none", c, timer.Counts{})
	s.same("acme", s.forgetAll("acme", 2), timer.Counts{Scheduled: 21, Reached: 3, Canceled: 2})
	s.same("once more", s.forgetAll("acme", 2), timer.Counts{})
	counts, err := s.store.Stats(s.Context(), "acme")
	s.must(err)
	s.same("counts", counts.Counts, timer.Counts{})
	s.same("the others", s.stats().Counts, timer.Counts{Scheduled: 42, Reached: 6, Canceled: 4})
	s.same("parked", numbers(s.parked("", 0, 10)), seqs[1:2])
	s.same("what waits", messageIDs(s.takeInbox(noon, 10, 10)), []string{"of another"})
	s.same("applied selections", s.applied("acme"), []string{})
	s.same("beta, in one step", s.forgetAll("beta", 1000), timer.Counts{Scheduled: 21, Reached: 3, Canceled: 2})
	s.same("parked", s.stats().Parked, int64(0))
}

func forgetLeaves(s *suite) {
	s.timers("acme", 3, noon)
	events := s.fire(noon, 10)
	s.same("fired", len(events), 1)
	s.same("forgotten", s.forgetAll("acme", 10), timer.Counts{Scheduled: 2, Reached: 1})
	s.same("outbox", ids(s.head(0, 10)), []string{envelope.EventID(events[0])})
	s.same("an old command", s.schedule(schedule(key("acme", "call-000000"), 1, noon)), []timer.Outcome{timer.DidSchedule})
	s.same("fires", len(s.fire(noon, 10)), 1)
}
