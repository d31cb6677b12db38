package storetest

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// event returns an event of a call that is due at noon.
func event(call int) timer.DueTimeReached {
	return timer.DueTimeReached{
		Key:       key("acme", timer.ServiceCallID(fmt.Sprint("call-", call))),
		CommandID: fmt.Sprint("command-", call), DueAt: noon, ReachedAt: noon.Add(time.Millisecond),
	}
}

func (s *suite) emit(events ...timer.DueTimeReached) {
	s.Helper()
	s.must(s.store.Update(s.Context(), func(tx timer.Tx) error { return tx.Emit(s.Context(), events...) }))
}

func ids(rows []outbox.Row) []string {
	all := make([]string, len(rows))
	for i, row := range rows {
		all[i] = row.Message.UUID
	}
	return all
}

// outboxOrder appends more events at once than a store adds with one statement.
func outboxOrder(s *suite) {
	s.emit()
	s.same("no events", len(s.head(0, 10)), 0)
	var want []string
	next := 0
	for _, n := range []int{1, 2, 50, 51, 1000, 2345, 3} {
		events := make([]timer.DueTimeReached, n)
		for i := range events {
			events[i] = event(next)
			want = append(want, envelope.EventID(events[i]))
			next++
		}
		s.emit(events...)
	}
	rows := s.head(0, 10_000)
	s.same("ids", ids(rows), want)
	for i := 1; i < len(rows); i++ {
		if rows[i].Seq <= rows[i-1].Seq {
			s.Fatalf("row %d has number %d, the one before %d", i, rows[i].Seq, rows[i-1].Seq)
		}
	}
}

// outboxAgain puts an event into the outbox twice, and removes it by its id, as a recovery removes
// events that the broker has.
func outboxAgain(s *suite) {
	s.schedule(schedule(key("acme", "call"), 1, noon))
	first := s.fire(noon, 1)[0]
	again := first
	again.Again = noon.Add(time.Hour)
	s.emit(again, again)
	rows := s.head(0, 10)
	s.same("rows", len(rows), 3)
	seen := make(map[string]bool)
	for _, row := range rows {
		seen[row.Message.UUID] = true
		s.same("body", string(row.Message.Payload), string(rows[0].Message.Payload))
		s.same("headers", row.Message.Metadata, rows[0].Message.Metadata)
	}
	s.same("ids of messages", len(seen), 3)
	stats, err := s.store.Stats(s.Context(), "")
	s.must(err)
	s.same("events that wait, the oldest since", []any{stats.Outbox, stats.Oldest}, []any{int64(3), noon})
	first.ID = envelope.EventID(first)
	s.fired(keep, first)
	s.same("rows that the broker does not have", ids(s.head(0, 10)), ids(rows[1:]))
	stats, err = s.store.Stats(s.Context(), "")
	s.must(err)
	s.same("of them the oldest since", stats.Oldest, again.Again)
}

func outboxMessage(s *suite) {
	s.schedule(longest)
	s.schedule(schedule(key("acme", "bare"), 1, noon.Add(2*time.Hour)))
	events := s.fire(noon.Add(2*time.Hour), 10)
	s.same("fired", len(events), 2)
	rows := s.head(0, 10)
	s.same("rows", len(rows), 2)
	for i, e := range events {
		m := rows[i].Message
		e.ID = envelope.EventID(e)
		s.same("id", m.UUID, e.ID)
		s.same("body", string(m.Payload), string(envelope.Reached(e)))
		s.same("headers", m.Metadata, message.Metadata(envelope.HeadersOf(e)))
		s.same("attempts", rows[i].Attempts, 0)
		decoded, err := envelope.Decode(m.Payload)
		s.must(err)
		got, ok := decoded.Payload.(timer.DueTimeReached)
		s.same("type", ok, true)
		s.same("event", []any{got.Key, got.DueAt, got.ReachedAt, got.CorrelationID}, []any{e.Key, e.DueAt, e.ReachedAt, e.CorrelationID})
	}
	again := s.head(0, 1)[0].Message
	s.same("rows are read anew", again == rows[0].Message, false)
}

func outboxPages(s *suite) {
	for i := range 5 {
		s.emit(event(i))
	}
	all := s.head(0, 10)
	s.same("limit", ids(s.head(0, 2)), ids(all[:2]))
	s.same("next page", ids(s.head(all[1].Seq, 2)), ids(all[2:4]))
	s.same("last page", ids(s.head(all[3].Seq, 2)), ids(all[4:]))
	s.same("after the last", len(s.head(all[4].Seq, 2)), 0)
	s.same("far after the last", len(s.head(1<<62, 2)), 0)
}

func outboxDelete(s *suite) {
	const n = 1300
	events := make([]timer.DueTimeReached, n)
	for i := range events {
		events[i] = event(i)
	}
	s.emit(events...)
	rows := s.head(0, n)
	s.must(s.store.Delete(s.Context()))
	var odd []outbox.Place
	var even []string
	for i, row := range rows {
		if i%2 == 1 {
			odd = append(odd, row.Place)
		} else {
			even = append(even, row.Message.UUID)
		}
	}
	s.must(s.store.Delete(s.Context(), odd...))
	s.same("left", ids(s.head(0, n)), even)
	s.must(s.store.Delete(s.Context(), append(odd, outbox.Place{Seq: 1 << 62})...))
	s.same("left", ids(s.head(0, n)), even)
}

func outboxNumbers(s *suite) {
	last := int64(0)
	for i := range 5 {
		s.emit(event(2*i), event(2*i+1))
		rows := s.head(0, 10)
		s.same("rows", len(rows), 2)
		if rows[0].Seq <= last {
			s.Fatalf("number %d again, after %d", rows[0].Seq, last)
		}
		last = rows[1].Seq
		switch i {
		case 3:
			s.must(s.store.Park(s.Context(), noon, rows[1].Place, "refused"))
			s.must(s.store.Delete(s.Context(), rows[0].Place))
		default:
			s.must(s.store.Delete(s.Context(), rows[0].Place, rows[1].Place))
		}
	}
}

// deferRow defers a row until a time.
func (s *suite) deferRow(row outbox.Place, destination, reason string, until time.Time) {
	s.Helper()
	s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: row, Destination: destination, Reason: reason, RetryAt: until}))
}

func (s *suite) deferred(now time.Time, from string, limit, each int) []outbox.Row {
	s.Helper()
	rows, err := s.store.Deferred(s.Context(), now, from, limit, each)
	s.must(err)
	return rows
}

func (s *suite) nextRetry(of string, want time.Time) {
	s.Helper()
	next, err := s.store.NextRetry(s.Context(), time.Time{})
	s.must(err)
	s.same("next retry "+of, next.UTC(), want)
}

func outboxDefer(s *suite) {
	s.emit(event(1), event(2), event(3))
	all := s.head(0, 10)
	row := all[1].Place
	until := noon
	for n := 1; n <= 3; n++ {
		until = until.Add(time.Second)
		s.deferRow(row, fmt.Sprint("topic-", n), `too large: "x"`, until)
		s.same("head", ids(s.head(0, 10)), []string{all[0].Message.UUID, all[2].Message.UUID})
		s.same("not due", len(s.deferred(until.Add(-time.Millisecond), "", 10, 10)), 0)
		rows := s.deferred(until, "", 10, 10)
		s.same("due", len(rows), 1)
		s.same("row", []any{rows[0].Seq, rows[0].Attempts, rows[0].Destination}, []any{row.Seq, n, fmt.Sprint("topic-", n)})
		s.same("deferred", rows[0].Deferred, true)
		row = rows[0].Place
		s.same("message", []any{rows[0].Message.UUID, string(rows[0].Message.Payload), rows[0].Message.Metadata},
			[]any{all[1].Message.UUID, string(all[1].Message.Payload), all[1].Message.Metadata})
	}
	for _, place := range []outbox.Place{row, all[2].Place} {
		s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: place, Destination: "untried", Reason: "busy", RetryAt: until, Untried: true}))
	}
	attempts := make(map[outbox.Place]int)
	for _, row := range s.deferred(until, "untried", 10, 10) {
		attempts[row.Place] = row.Attempts
	}
	third := all[2].Place
	third.Deferred = true
	s.same("attempts", attempts, map[outbox.Place]int{row: 3, third: 0})
	s.same("in the outbox", s.stats().Outbox, int64(3))
	s.must(s.store.Delete(s.Context(), all[0].Place, row, third))
	s.same("in the outbox", s.stats().Outbox, int64(0))
	s.deferRow(row, "topic", "gone", until)
	s.deferRow(all[1].Place, "topic", "gone", until)
	s.must(s.store.Defer(s.Context()))
	s.same("left", len(s.deferred(until, "", 10, 10)), 0)
	s.nextRetry("of none", time.Time{})
}

// outboxDeferMany defers rows of destinations of different sizes.
func outboxDeferMany(s *suite) {
	const n = 60
	events := make([]timer.DueTimeReached, n)
	for i := range events {
		events[i] = event(i)
	}
	s.emit(events...)
	rows := s.head(0, n)
	name := func(i int) string { // of the row: 40 of "a", 18 of "b", one each of "c" and "d"
		switch {
		case i < 2:
			return string(rune('c' + i))
		case i%20 < 6:
			return "b"
		}
		return "a"
	}
	s.nextRetry("of none", time.Time{})
	var deferrals []outbox.Deferral
	count := make(map[string]int)
	for i, row := range rows { // the last is due first
		count[name(i)]++
		deferrals = append(deferrals, outbox.Deferral{Place: row.Place, Destination: name(i), Reason: "failed", RetryAt: noon.Add(-time.Duration(i) * time.Second)})
	}
	s.must(s.store.Defer(s.Context(), deferrals...))
	taken := func(rows []outbox.Row) (got string) {
		for _, row := range rows {
			got += row.Destination
		}
		return got
	}
	s.same("three of each", taken(s.deferred(noon, "", 100, 3)), "aaabbbcd")
	s.same("from b on", taken(s.deferred(noon, "b", 100, 3)), "bbbcd")
	s.same("behind b", taken(s.deferred(noon, "ba", 100, 3)), "cd")
	s.same("behind all", taken(s.deferred(noon, "e", 100, 3)), "")
	s.same("no more than five", taken(s.deferred(noon, "", 5, 3)), "aaabb")
	s.same("all", len(s.deferred(noon, "", 100, 100)), n)
	s.same("those that are due", taken(s.deferred(noon.Add(-58*time.Second), "", 100, 100)), "aa")
	s.nextRetry("of all", noon.Add(-(n-1)*time.Second))
	earliest := s.deferred(noon, "b", 1, 1)
	last := 0
	for i := range rows {
		if name(i) == "b" {
			last = i
		}
	}
	s.same("the earliest first", earliest[0].Seq, rows[last].Seq)
	third := rows[0].Place
	third.Deferred = true
	s.deferRow(third, "c", "failed", noon.Add(-time.Hour))
	s.nextRetry("of the third destination", noon.Add(-time.Hour))
}

// outboxHasten has rows that are to wait for an hour.
func outboxHasten(s *suite) {
	s.emit(event(1), event(2), event(3))
	rows := s.head(0, 10)
	s.deferRow(rows[0].Place, "a", "failed", noon.Add(-time.Hour))
	s.deferRow(rows[1].Place, "b", "failed", noon.Add(time.Hour))
	s.same("due", len(s.deferred(noon, "", 10, 10)), 1)
	s.must(s.store.Hasten(s.Context(), noon))
	due := s.deferred(noon, "", 10, 10)
	s.same("due", ids(due), []string{rows[0].Message.UUID, rows[1].Message.UUID})
	s.same("attempts", []int{due[0].Attempts, due[1].Attempts}, []int{1, 1})
	s.same("head", ids(s.head(0, 10)), []string{rows[2].Message.UUID})
}

// outboxSnoozed defers an event that its handler has failed to handle, and then wants later.
func outboxSnoozed(s *suite) {
	snoozed, other := event(1), event(2)
	other.ReachedAt = noon.Add(time.Second)
	s.emit(snoozed, other)
	rows := s.head(0, 10)
	again := rows[0].Place
	again.Deferred = true
	s.deferRow(rows[0].Place, "acme", "failed", noon)
	later := noon.Add(time.Hour)
	s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: again, Destination: outbox.Snoozed + "acme", Reason: "busy", RetryAt: later, Untried: true}))
	s.must(s.store.Hasten(s.Context(), noon.Add(time.Minute)))
	s.same("before its time", len(s.deferred(later.Add(-time.Millisecond), "", 10, 10)), 0)
	s.nextRetry("at its time", later)
	s.same("delivery", s.delivery(rows[0].Message.UUID), timer.Delivery{
		State: timer.Snoozed, Since: snoozed.ReachedAt, Attempts: 1, Reason: "busy", Destination: "acme", RetryAt: later,
	})
	failing, err := s.store.Failing(s.Context())
	s.must(err)
	s.same("failing", len(failing), 0)
	s.deferRow(rows[1].Place, "other", "failed", noon)
	s.same("the oldest", s.stats().Oldest, other.ReachedAt)
	s.same("in the outbox", s.stats().Outbox, int64(2))
	s.same("at its time", ids(s.deferred(later, "z", 10, 10)), []string{rows[0].Message.UUID})
	s.deferRow(again, "acme", "failed", later)
	s.same("the oldest", s.stats().Oldest, snoozed.ReachedAt)
}

// outboxFailing has a destination that fails, one whose events go around it untried, one that
// works again, and an event that no handler wants.
func outboxFailing(s *suite) {
	s.emit(event(0), event(1), event(2), event(3), event(4), event(5))
	rows := s.head(0, 10)
	fail := func(row outbox.Row, destination, reason string, untried, unclaimed bool) {
		s.Helper()
		s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: row.Place, Destination: destination, Reason: reason, RetryAt: noon, Untried: untried, Unclaimed: unclaimed}))
	}
	failing := func(want ...timer.FailingDestination) {
		s.Helper()
		got, err := s.store.Failing(s.Context())
		s.must(err)
		s.same("failing", got, want)
	}
	failing()
	fail(rows[2], "denied", "goes around", true, false)
	fail(rows[3], "busy", "goes around", true, false)
	fail(rows[4], "order-4", "no handler", true, true)
	failing()
	fail(rows[1], "denied", "no permission", false, false)
	fail(rows[0], "away", "no leader", false, false)
	denied := timer.FailingDestination{Destination: "denied", Events: 2, Oldest: event(1).ReachedAt, Reason: "no permission"}
	failing(timer.FailingDestination{Destination: "away", Events: 1, Oldest: event(0).ReachedAt, Reason: "no leader"}, denied)
	rows[0].Place.Deferred = true
	s.must(s.store.Delete(s.Context(), rows[0].Place))
	failing(denied)
	rows[1].Place.Deferred = true
	fail(rows[1], "denied", "a longer reason", false, false)
	denied.Reason = "a longer reason"
	failing(denied)
	_, err := s.store.Claim(s.Context(), "", 10)
	s.must(err)
}

// outboxClaim has rows of the head and deferred ones that no handler wants.
func outboxClaim(s *suite) {
	calls := []timer.ServiceCallID{"order-2", "order-1", "order-10", "orders", "a-late-one", "order-3", "order-2"}
	events := make([]timer.DueTimeReached, len(calls))
	for i, call := range calls {
		events[i] = event(i)
		events[i].ServiceCallID = call
	}
	s.emit(events...)
	rows := s.head(0, 10)
	s.deferRow(rows[5].Place, "acme", "failed", noon)
	rows[5].Place.Deferred = true
	s.deferRow(rows[4].Place, "acme", "failed", noon)
	unclaim := func(row outbox.Row, call timer.ServiceCallID) {
		s.must(s.store.Defer(s.Context(), outbox.Deferral{
			Place: row.Place, Destination: string(call), Reason: "no handler", RetryAt: noon, Untried: true, Unclaimed: true,
		}))
	}
	for i, row := range rows {
		if i != 4 {
			unclaim(row, calls[i])
		}
	}
	unclaimed := func(limit int, want ...timer.ServiceCallID) {
		s.Helper()
		got, err := s.store.Unclaimed(s.Context(), limit)
		s.must(err)
		s.same("unclaimed", got, want)
	}
	claim := func(prefix string, limit, want int) {
		s.Helper()
		n, err := s.store.Claim(s.Context(), prefix, limit)
		s.must(err)
		s.same("claimed by "+prefix, n, want)
	}
	unclaimed(10, "order-1", "order-10", "order-2", "order-3", "orders")
	unclaimed(2, "order-1", "order-10")
	st := s.stats()
	s.same("in the outbox, and the oldest", []any{st.Outbox, st.Oldest}, []any{int64(7), events[0].ReachedAt})
	s.must(s.store.Hasten(s.Context(), noon.Add(time.Hour)))
	s.same("only what is wanted is retried", len(s.deferred(noon.Add(24*time.Hour), "", 10, 10)), 1)
	s.same("at the head", len(s.head(0, 10)), 0)

	claim("invoice-", 10, 0)
	claim("order-", 3, 3)
	unclaimed(10, "order-2", "order-3", "orders")
	claim("order-", 3, 2)
	claim("order-", 3, 0)
	attempts := make(map[string]int)
	for _, row := range s.head(0, 10) {
		attempts[row.Message.Metadata.Get(envelope.HeaderServiceCallID)] = row.Attempts
		s.same("number", row.Seq > rows[5].Seq, true)
	}
	s.same("claimed, with their attempts", attempts, map[string]int{"order-1": 0, "order-10": 0, "order-2": 0, "order-3": 1})
	claim("", 10, 1)
	unclaimed(10)
	s.same("in the outbox", s.stats().Outbox, int64(7))
}

func outboxPark(s *suite) {
	s.emit(event(1), event(2), event(3))
	rows := s.head(0, 10)
	for range 2 { // once more is no error
		s.must(s.store.Park(s.Context(), noon, rows[1].Place, "refused"))
	}
	s.same("left", ids(s.head(0, 10)), []string{rows[0].Message.UUID, rows[2].Message.UUID})
	st := s.stats()
	s.same("outbox and parked", []int64{st.Outbox, st.Parked}, []int64{2, 1})
	s.must(s.store.Park(s.Context(), noon, outbox.Place{Seq: 1 << 62}, "never was"))
	s.same("parked", s.stats().Parked, int64(1))
	s.deferRow(rows[2].Place, "topic", "refused", noon)
	s.must(s.store.Park(s.Context(), noon, s.deferred(noon, "", 1, 1)[0].Place, "refused again"))
	s.same("deferred", len(s.deferred(noon, "", 10, 10)), 0)
	st = s.stats()
	s.same("outbox and parked", []int64{st.Outbox, st.Parked}, []int64{1, 2})
}
