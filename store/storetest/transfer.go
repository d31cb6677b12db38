package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A TransferStore is a store that can be moved to another one.
type TransferStore interface {
	Store
	store.DumpLoader
}

// RunTransfer tests how a store is dumped and loaded. Open returns an empty one,
// as for [Run]; a case may open several.
func RunTransfer(t *testing.T, open func(testing.TB) TransferStore) {
	for _, c := range []struct {
		name string
		test func(*suite, func() *suite)
	}{
		{"Dump of nothing tells nothing", dumpNothing},
		{"Dump tells all fields of every timer, ordered by key", dumpTimers},
		{"Dump tells the outbox and parked events, in order", dumpEvents},
		{"Dump is a snapshot", dumpSnapshot},
		{"Dump ends with the error of yield, or with its context", dumpEnds},
		{"Load of a dump gives an equal dump, equal counts and equal pages", loadEqual},
		{"Load of any number of rows", loadSizes},
		{"Load into what is not empty is refused", loadRefuses},
		{"Load that fails keeps nothing, wherever it fails", loadFails},
		{"Load keeps nothing when its context ends", loadEnds},
		{"Load of a row that can't be keeps nothing", loadBad},
		{"Load into a store that was in use and is empty", loadUsed},
		{"After Load the store goes on as the other would have", loadGoesOn},
		{"A pause of firing stays where it is", pauseStays},
		{"Export and import, there and back, are the same byte for byte", exportImport},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			another := func() *suite { return &suite{T: t, store: open(t)} }
			c.test(another(), another)
		})
	}
}

// moved is the store as one that can be moved.
func (s *suite) moved() store.DumpLoader {
	s.Helper()
	m, ok := s.store.(store.DumpLoader)
	if !ok {
		s.Fatalf("%T can't be dumped and loaded", s.store)
	}
	return m
}

func (s *suite) dump() (records []store.Record) {
	s.Helper()
	s.must(s.moved().Dump(s.Context(), func(r store.Record) error {
		records = append(records, r)
		return nil
	}))
	return records
}

// from returns records one after the other, and then an error.
func from(records []store.Record, end error) func() (store.Record, error) {
	return func() (store.Record, error) {
		if len(records) == 0 {
			return store.Record{}, end
		}
		r := records[0]
		records = records[1:]
		return r, nil
	}
}

func (s *suite) load(records []store.Record) {
	s.Helper()
	s.must(s.moved().Load(s.Context(), from(records, io.EOF)))
}

// lived fills the store with all that there can be.
func (s *suite) lived() {
	s.Helper()
	s.schedule(longest)
	bare := schedule(key("zoe", "bare"), 0, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	bare.CommandID = "!"
	s.schedule(bare)
	all := schedule(key("acme", "full"), 7, time.Date(2200, 12, 31, 23, 59, 59, 999e6, time.UTC))
	all.CorrelationID, all.Trace, all.Data = full, longest.Trace, `{"a" : "\u2028`+"\u2028"+`" }`
	s.schedule(all, schedule(key("ACME", "A"), 1, noon), schedule(key("acme", "A"), 1, noon.Add(time.Hour)),
		schedule(key("acme", "a"), 1, noon), schedule(key("acme", "_"), 1, noon), schedule(key("acme", ":"), 1, noon.Add(time.Hour)))
	s.timers("many", 120, noon)
	s.cancel(cancel(key("acme", "A"), 2), cancel(key("acme", "tombstone"), 1<<53-1), cancel(key("Zoe", "tombstone"), 1))
	s.fire(noon.Add(3*time.Millisecond), 100)
	rows := s.head(0, 100)
	for range 3 {
		s.deferRow(rows[1].Seq, "events", "refused: \"\u2028é\\", noon)
	}
	s.deferRow(rows[2].Seq, "events", "", noon)
	s.must(s.store.Park(s.Context(), noon.Add(time.Hour), rows[3].Seq, "too large"))
	s.must(s.store.Park(s.Context(), noon.Add(time.Hour), rows[1].Seq, "refused for good"))
	s.must(s.store.Delete(s.Context(), rows[0].Seq))
}

func dumpNothing(s *suite, _ func() *suite) { s.same("dump", s.dump(), []store.Record(nil)) }

func dumpTimers(s *suite, _ func() *suite) {
	s.lived()
	var last timer.Key
	n := 0
	for _, r := range s.dump() {
		if r.Kind != store.KindTimer {
			break
		}
		n++
		e := r.Timer
		if e.TenantID < last.TenantID || e.TenantID == last.TenantID && e.ServiceCallID <= last.ServiceCallID {
			s.Errorf("%s comes after %s", e.Key, last)
		}
		last = e.Key
		s.same(e.Key.String(), e, s.get(e.Key))
	}
	s.same("timers", n, 130)
}

func dumpEvents(s *suite, _ func() *suite) {
	s.lived()
	var waiting, parked []store.Event
	for _, r := range s.dump() {
		switch r.Kind {
		case store.KindOutbox:
			s.same("parked events come last", len(parked), 0)
			waiting = append(waiting, r.Event)
		case store.KindParked:
			parked = append(parked, r.Event)
		}
	}
	rows := s.waiting()
	var want []store.Event
	for _, row := range rows {
		want = append(want, store.Event{
			ID: row.Message.UUID, AppendedAt: noon.Add(3 * time.Millisecond), Attempts: row.Attempts,
			Headers: row.Message.Metadata, Body: row.Message.Payload,
		})
	}
	s.same("outbox", waiting, want)
	s.same("parked", len(parked), 2)
	for i, want := range []store.Event{
		{Attempts: 4, LastError: "refused for good"}, // it was appended before the other
		{Attempts: 1, LastError: "too large"},
	} {
		e := parked[i]
		s.same("parked", []any{e.Attempts, e.LastError, e.ParkedAt, e.AppendedAt},
			[]any{want.Attempts, want.LastError, noon.Add(time.Hour), noon.Add(3 * time.Millisecond)})
		s.same("id of a parked event", e.Headers["messageId"], e.ID)
	}
}

// dumpSnapshot changes everything while the first record is being yielded.
func dumpSnapshot(s *suite, _ func() *suite) {
	s.lived()
	want := s.dump()
	var got []store.Record
	s.must(s.moved().Dump(s.Context(), func(r store.Record) error {
		if len(got) == 0 {
			s.schedule(schedule(key("zzz", "late"), 1, noon))
			s.fire(noon.Add(time.Minute), 50)
			s.cancel(cancel(key("zoe", "bare"), 2))
			for _, row := range s.head(0, 2) {
				s.must(s.store.Park(s.Context(), noon, row.Seq, "late"))
			}
		}
		got = append(got, r)
		return nil
	}))
	s.same("dump", got, want)
}

func dumpEnds(s *suite, _ func() *suite) {
	s.lived()
	all := len(s.dump())
	enough := errors.New("enough")
	for _, end := range []int{1, 100, 131, all} {
		n := 0
		err := s.moved().Dump(s.Context(), func(store.Record) error {
			if n++; n == end {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != end {
			s.Errorf("dump ended after %d records with %v, want %d and the error of yield", n, err, end)
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if err := s.moved().Dump(ctx, func(store.Record) error { return nil }); !errors.Is(err, context.Canceled) {
		s.Errorf("dump with a context that has ended: %v", err)
	}
}

func (s *suite) tenants() []timer.TenantCounts {
	s.Helper()
	tenants, err := s.store.Tenants(s.Context(), "", 1000)
	s.must(err)
	return tenants
}

func loadEqual(s *suite, another func() *suite) {
	s.lived()
	records := s.dump()
	to := another()
	to.load(records)
	to.same("dump", to.dump(), records)
	to.same("stats", to.stats(), s.stats())
	to.same("tenants", to.tenants(), s.tenants())
	for _, tenant := range []timer.TenantID{"acme", "ACME", "many", longest.TenantID} {
		for _, f := range []timer.Filter{{}, {State: timer.Reached}, {DueFrom: noon.Add(time.Millisecond)}, {CorrelationID: full}} {
			to.same(fmt.Sprintf("page of %s, %+v", tenant, f), to.list(tenant, f), s.list(tenant, f))
		}
	}
	var was, is []any
	for _, row := range s.waiting() {
		was = append(was, row.Message.UUID, row.Message.Metadata, string(row.Message.Payload), row.Attempts)
	}
	last := int64(0)
	for _, row := range to.head(0, 1000) {
		is = append(is, row.Message.UUID, row.Message.Metadata, string(row.Message.Payload), row.Attempts)
		if row.Seq <= last {
			to.Errorf("number %d after %d", row.Seq, last)
		}
		last = row.Seq
	}
	to.same("outbox", is, was)
}

// full is the correlation id of a timer of acme.
const full = `req"\7`

func loadSizes(s *suite, another func() *suite) {
	const n = 121
	s.timers("acme", n, noon)
	s.fire(noon.Add(time.Hour), n)
	for _, row := range s.head(0, 3) {
		s.must(s.store.Park(s.Context(), noon, row.Seq, "refused"))
	}
	s.timers("beta", n, noon)
	all := s.dump()
	s.same("records", len(all), 3*n)
	events := all[2*n:]
	for _, size := range []int{1, 50, 51, 118} {
		some := append(append([]store.Record(nil), all[:size]...), events[:size]...)
		to := another()
		to.load(some)
		to.same(fmt.Sprintf("dump of %d", 2*size), to.dump(), some)
		st := to.stats()
		to.same("counts", []int64{st.Reached, st.Outbox, st.Parked}, []int64{int64(size), int64(size), 0})
	}
}

func loadRefuses(s *suite, another func() *suite) {
	s.lived()
	records := s.dump()
	for what, fill := range map[string]func(*suite){
		"a timer":     func(s *suite) { s.schedule(schedule(key("acme", "x"), 1, noon)) },
		"a tombstone": func(s *suite) { s.cancel(cancel(key("acme", "x"), 1)) },
		"an event":    func(s *suite) { s.emit(event(1)) },
		"a parked event": func(s *suite) {
			s.emit(event(1))
			s.must(s.store.Park(s.Context(), noon, s.head(0, 1)[0].Seq, "refused"))
		},
	} {
		to := another()
		fill(to)
		before := to.dump()
		err := to.moved().Load(to.Context(), func() (store.Record, error) {
			to.Errorf("%s: it asked for a record", what)
			return store.Record{}, io.EOF
		})
		if !errors.Is(err, store.ErrNotEmpty) {
			to.Errorf("%s: %v, want ErrNotEmpty", what, err)
		}
		if err := to.moved().Load(to.Context(), from(records, io.EOF)); !errors.Is(err, store.ErrNotEmpty) {
			to.Errorf("%s: %v, want ErrNotEmpty", what, err)
		}
		to.same(what, to.dump(), before)
	}
}

func loadFails(s *suite, another func() *suite) {
	s.lived()
	records := s.dump()
	to := another()
	broken := errors.New("broken")
	for n := 0; n <= len(records); n += 7 {
		if err := to.moved().Load(to.Context(), from(records[:n], broken)); !errors.Is(err, broken) {
			to.Errorf("load that fails after %d records: %v", n, err)
		}
	}
	to.same("dump", to.dump(), []store.Record(nil))
	to.same("stats", to.stats(), timer.Stats{})
	to.same("tenants", to.tenants(), []timer.TenantCounts(nil))
	to.load(records)
	to.same("dump", to.dump(), records)
	to.same("stats", to.stats(), s.stats())
}

func loadEnds(s *suite, another func() *suite) {
	s.lived()
	records := s.dump()
	to := another()
	ctx, cancel := context.WithCancel(to.Context())
	next := from(records, io.EOF)
	n := 0
	err := to.moved().Load(ctx, func() (store.Record, error) {
		if n++; n == 60 {
			cancel()
		}
		return next()
	})
	if !errors.Is(err, context.Canceled) {
		to.Errorf("load: %v, want the end of its context", err)
	}
	to.same("dump", to.dump(), []store.Record(nil))
	to.same("stats", to.stats(), timer.Stats{})
}

func loadBad(s *suite, another func() *suite) {
	s.timers("acme", 60, noon)
	good := s.dump()
	to := another()
	for what, spoil := range map[string]func(*store.Record){
		"no due time":       func(r *store.Record) { r.Timer.DueAt = time.Time{} },
		"Reached, no time":  func(r *store.Record) { r.Timer.State = timer.Reached },
		"an unknown state":  func(r *store.Record) { r.Timer.State = "Odd" },
		"the same key":      func(r *store.Record) { r.Timer.ServiceCallID = "call-000000" },
		"no kind":           func(r *store.Record) { r.Kind = "" },
		"reached too early": func(r *store.Record) { r.Timer.State, r.Timer.ReachedAt = timer.Reached, noon.Add(-time.Millisecond) },
	} {
		records := append([]store.Record(nil), good...)
		spoil(&records[57])
		if err := to.moved().Load(to.Context(), from(records, io.EOF)); err == nil {
			to.Errorf("%s: it was loaded", what)
		}
	}
	to.same("dump", to.dump(), []store.Record(nil))
	to.same("stats", to.stats(), timer.Stats{})
}

// loadUsed loads into a store that gave numbers to events before.
func loadUsed(s *suite, another func() *suite) {
	s.lived()
	to := another()
	to.emit(event(1), event(2))
	rows := to.head(0, 2)
	to.must(to.store.Delete(to.Context(), rows[0].Seq, rows[1].Seq))
	to.load(s.dump())
	to.same("dump", to.dump(), s.dump())
	if seq := to.head(0, 1)[0].Seq; seq <= rows[1].Seq {
		to.Errorf("number %d was given before", seq)
	}
	to.same("stats", to.stats(), s.stats())
}

// loadGoesOn lets both stores do the same things.
func loadGoesOn(s *suite, another func() *suite) {
	s.lived()
	to := another()
	to.load(s.dump())
	var unverified int
	to.must(to.store.DB().QueryRowContext(to.Context(), `SELECT count(*) FROM timer_schedules WHERE state = 'Scheduled' AND checksum IS NULL`).Scan(&unverified))
	to.same("without a checksum", unverified, 0)
	for _, s := range []*suite{s, to} {
		s.same("an old command", s.schedule(schedule(key("acme", "tombstone"), 5, noon)), []timer.Outcome{timer.WasStale})
		s.same("one that fired", s.schedule(schedule(key("zoe", "bare"), 5, noon)), []timer.Outcome{timer.WasReached})
		s.same("one that was canceled", s.schedule(schedule(key("acme", "A"), 5, noon)), []timer.Outcome{timer.DidSchedule})
		s.same("a new one", s.schedule(schedule(key("new", "new"), 5, noon)), []timer.Outcome{timer.DidSchedule})
		s.same("fired", len(s.fire(noon.Add(2*time.Hour), 1000)), 120)
		s.same("set aside", len(s.damaged()), 0)
		// An event must not be parked under the number of another.
		for {
			rows := s.waiting()
			if len(rows) == 0 {
				break
			}
			for _, row := range rows {
				s.must(s.store.Park(s.Context(), noon, row.Seq, "refused"))
			}
		}
		s.same("parked", s.stats().Parked, int64(127))
		s.same("forgotten", s.sweep(noon.Add(3*time.Hour), 50), 130)
		s.same("left", s.stats().Counts, timer.Counts{Scheduled: 1})
	}
	to.same("tenants", to.tenants(), s.tenants())
}

// export returns the lines of the store behind the header.
func (s *suite) export() string {
	s.Helper()
	var b bytes.Buffer
	header := store.Header{Source: "test", SchemaVersion: 1, ExportedAt: noon}
	sum, err := store.Export(s.Context(), s.moved(), header, &b, nil)
	s.must(err)
	st := s.stats()
	s.same("summary", []any{sum.Timers, sum.Outbox, sum.Parked}, []any{st.Counts, st.Outbox, st.Parked})
	return b.String()
}

func exportImport(s *suite, another func() *suite) {
	s.lived()
	file := s.export()
	to := another()
	_, err := store.Import(to.Context(), to.moved(), strings.NewReader(file), nil)
	to.must(err)
	to.same("export", to.export(), file)
	to.same("stats", to.stats(), s.stats())
}

// pauseStays moves from a database where firing is paused, and into one.
func pauseStays(s *suite, another func() *suite) {
	s.lived()
	pause := timer.Pause{Since: noon, By: "ops"}
	s.must(s.store.PauseFiring(s.Context(), pause))
	fires, paused := another(), another()
	fires.load(s.dump())
	s.same("of the copy", fires.firing(), timer.Pause{})
	s.same("parked events", len(fires.parked("", 0, 10)), len(s.parked("", 0, 10)))
	paused.must(paused.store.PauseFiring(s.Context(), pause))
	paused.load(s.dump())
	s.same("of a copy where it was paused", paused.firing(), pause)
}
