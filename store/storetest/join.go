package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A JoinedStore is a store whose commands go into transactions of a host's.
type JoinedStore interface {
	Store
	Transactor
	DB() *sql.DB
}

// A Transactor has transactions for a host, see app.Store.
type Transactor interface {
	Join(tx *sql.Tx) timer.Transaction
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error
	TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error)
}

// A HostTx is a transaction of a host program, in which the store applies commands.
type HostTx interface {
	timer.Transaction
	Exec(ctx context.Context, text string) error
	Commit() error
	Rollback() error
}

// A Begin begins a transaction of one kind on the database of a store. It is rolled back
// when the test ends, if it is open then.
type Begin func(testing.TB, JoinedStore) HostTx

// RunJoined tests commands in transactions of a host's. Open returns an empty store, and
// has it closed when the test ends.
func RunJoined(t *testing.T, open func(testing.TB) JoinedStore, begin Begin) {
	for _, c := range []struct {
		name string
		test func(*joinedSuite)
	}{
		{"What is rolled back never was, what is committed is there", joinedEnds},
		{"Commands after the end of the transaction change nothing", joinedAfterEnd},
		{"Commands of a context that has ended change nothing, and the transaction goes on", joinedEndedContext},
		{"Receipts are committed with the effects, or not at all", joinedReceipts},
		{"Messages are put into the inbox with the commit, or not at all", joinedInbox},
		{"A list has what the transaction did, and others do not see it", joinedList},
	} {
		runJoined(t, c.name, open, begin, c.test)
	}
	for name, test := range map[string]func(*suite){
		"Every state meets every command, older, same and newer":       commandsMeetStates,
		"The same key several times in one call":                       sameKeyInOneCall,
		"A call with many is applied in order and tells what each did": manyCommands,
		"Of a context that has ended change nothing":                   endedContext,
		"A timer keeps all that the command said":                      keepsFields,
		"A due time is rounded up, the clock down":                     rounding,
		"Reach leaves alone what was canceled or moved away":           reachSkips,
		"Commands that want a receipt have one, in their transaction":  outboxReceipts,
	} {
		runJoined(t, "As in a transaction of the store: "+name, open, begin, func(s *joinedSuite) { test(s.through()) })
	}
}

// JoinedReferenced tests transactions of a host's on a database with the foreign key
// to service_calls, see [Referenced].
func JoinedReferenced(t *testing.T, open func(tb testing.TB, calls []timer.ServiceCallID) JoinedStore, begin Begin) {
	all := func(t testing.TB) JoinedStore { return open(t, existing(1000)) }
	runJoined(t, "What is refused leaves the transaction as it was, and it goes on", all, begin, joinedRefused)
	for _, c := range referencedCases {
		runJoined(t, "As in a transaction of the store: "+c.name, all, begin, func(s *joinedSuite) { c.test(s.through()) })
	}
}

// RunTransact tests the transactions that a store has for a host.
func RunTransact(t *testing.T, open func(testing.TB) JoinedStore) {
	for _, c := range []struct {
		name string
		test func(*joinedSuite)
	}{
		{"Transact commits what fn did, and its timers are seen at once", transactCommits},
		{"Transact leaves no trace when fn fails", transactFails},
		{"Transact leaves no trace when fn panics, and the store goes on", transactPanics},
		{"Transact leaves no trace when its context ends", transactEnds},
		{"A write of the same key in another transaction waits, and ends with its context", transactWaits},
		{"An event is taken once, deferred or not", takeOnce},
		{"An event is taken by one, though many try", takeConcurrently},
		{"An event is not taken after the end of the transaction", takeAfterEnd},
		{"An event is not taken with a context that has ended", takeEnded},
	} {
		runJoined(t, c.name, open, nil, c.test)
	}
}

func runJoined(t *testing.T, name string, open func(testing.TB) JoinedStore, begin Begin, test func(*joinedSuite)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		store := open(t)
		s := &joinedSuite{suite: &suite{T: t, store: store}, joined: store}
		s.must(store.Check(t.Context())) // which gets it ready
		s.begin = func() HostTx {
			t.Helper()
			return begin(t, store)
		}
		test(s)
		s.countsAreRight()
	})
}

// A joinedSuite has the tools of a case.
type joinedSuite struct {
	*suite
	joined JoinedStore
	begin  func() HostTx
}

// BeginSQL begins a transaction of database/sql. It is rolled back when the test ends,
// if it is open then.
func BeginSQL(t testing.TB, db *sql.DB, join func(*sql.Tx) timer.Transaction) HostTx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return sqlTx{join(tx), tx}
}

// through returns a suite whose commands go through transactions of the host program, one for
// each call.
func (s *joinedSuite) through() *suite {
	through := *s.suite
	through.store = hostTxStore{s.joined, s.begin}
	return &through
}

// A hostTxStore is a store whose commands go through transactions of a host program.
type hostTxStore struct {
	JoinedStore
	begin func() HostTx
}

func (t hostTxStore) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return ended(t.begin(), func(tx HostTx) ([]timer.Result, error) { return tx.Schedule(ctx, now, commands...) })
}

func (t hostTxStore) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return ended(t.begin(), func(tx HostTx) ([]timer.Result, error) { return tx.Cancel(ctx, now, commands...) })
}

// ended applies commands in a transaction, and ends it.
func ended(tx HostTx, apply func(HostTx) ([]timer.Result, error)) ([]timer.Result, error) {
	results, err := apply(tx)
	return results, errors.Join(err, tx.Commit()) // also after an error, which has changed nothing
}

type sqlTx struct {
	timer.Transaction
	*sql.Tx
}

func (t sqlTx) Exec(ctx context.Context, text string) error {
	_, err := t.ExecContext(ctx, text)
	return err
}

func joinedEnds(s *joinedSuite) {
	s.timers("acme", 2, noon.Add(time.Hour))
	gone := s.begin()
	s.same("in one that is rolled back", s.outcomes(gone.Schedule(s.Context(), noon, schedule(key("acme", "new"), 1, noon))), []timer.Outcome{timer.DidSchedule})
	s.same("in one that is rolled back", s.outcomes(gone.Cancel(s.Context(), noon, cancel(key("acme", "call-000000"), 2), cancel(key("acme", "none"), 2))),
		[]timer.Outcome{timer.DidCancel, timer.DidCancel})
	s.must(gone.Rollback())
	s.countsAreRight()
	s.same("next due", s.nextDue(), noon.Add(time.Hour))
	s.absent("new", "none")

	kept := s.begin()
	s.same("in one that is committed", s.outcomes(kept.Schedule(s.Context(), noon, schedule(key("acme", "new"), 1, noon), schedule(key("acme", "call-000001"), 2, noon))),
		[]timer.Outcome{timer.DidSchedule, timer.DidReschedule})
	s.must(kept.Commit())
	s.same("next due", s.nextDue(), noon)
	s.same("reached", len(s.reach(noon, 10)), 2)
}

func joinedAfterEnd(s *joinedSuite) {
	for _, end := range []func(HostTx) error{HostTx.Commit, HostTx.Rollback} {
		tx := s.begin()
		s.same("before", s.outcomes(tx.Cancel(s.Context(), noon, cancel(key("acme", "before"), 1)))[0] != 0, true)
		s.must(end(tx))
		if _, err := tx.Schedule(s.Context(), noon, schedule(key("acme", "after"), 1, noon)); err == nil {
			s.Error("a transaction that has ended took a command")
		}
		if _, err := tx.Cancel(s.Context(), noon, cancel(key("acme", "after"), 1)); err == nil {
			s.Error("a transaction that has ended took a command")
		}
	}
	s.absent("after")
}

func joinedEndedContext(s *joinedSuite) {
	ctx, end := context.WithCancel(s.Context())
	end()
	tx := s.begin()
	_, err := tx.Schedule(ctx, noon, schedule(key("acme", "call-1"), 1, noon))
	s.passes(err)
	_, err = tx.Cancel(ctx, noon, cancel(key("acme", "call-1"), 1))
	s.passes(err)
	s.same("with another", s.outcomes(tx.Schedule(s.Context(), noon, schedule(key("acme", "call-2"), 1, noon))), []timer.Outcome{timer.DidSchedule})
	s.must(tx.Commit())
	s.absent("call-1")
	s.same("state", s.get(key("acme", "call-2")).State, timer.Scheduled)
}

func joinedInbox(s *joinedSuite) {
	gone, kept := waitingMessage("acme", "gone"), waitingMessage("acme", "kept")
	tx := s.begin()
	s.must(tx.PutInbox(s.Context(), gone))
	s.must(tx.Rollback())
	tx = s.begin()
	s.must(tx.PutInbox(s.Context()))
	s.must(tx.PutInbox(s.Context(), kept))
	s.same("before the commit", s.inboxCounts(""), []timer.InboxCount{})
	s.must(tx.Commit())
	s.same("after it", messageIDs(s.takeInbox(noon, 10, 10)), []string{"kept"})
	if err := tx.PutInbox(s.Context(), gone); err == nil {
		s.Error("a transaction that has ended took a message")
	}
}

func joinedList(s *joinedSuite) {
	s.timers("acme", 2, noon.Add(time.Hour))
	s.timers("other", 1, noon.Add(time.Hour))
	tx := s.begin()
	s.outcomes(tx.Schedule(s.Context(), noon, schedule(key("acme", "call-1"), 1, noon), schedule(key("acme", "new"), 1, noon)))
	s.outcomes(tx.Cancel(s.Context(), noon, cancel(key("acme", "call-000000"), 2)))
	type lister interface {
		List(ctx context.Context, filter timer.Filter) (timer.Page, error)
	}
	list := func(by lister, f timer.Filter) (calls []timer.ServiceCallID) {
		f.TenantID, f.State, f.Limit = "acme", timer.Scheduled, 1 // several pages
		s.must(timer.EachPage(s.Context(), &f, by.List, func(entries []timer.Entry) error {
			for _, e := range entries {
				calls = append(calls, e.ServiceCallID)
			}
			return nil
		}))
		return calls
	}
	s.same("in the transaction", list(tx, timer.Filter{}), []timer.ServiceCallID{"call-000001", "call-1", "new"})
	s.same("a prefix in the transaction", list(tx, timer.Filter{Prefix: "call-0"}), []timer.ServiceCallID{"call-000001"})
	s.same("outside of it", list(s.store, timer.Filter{}), []timer.ServiceCallID{"call-000000", "call-000001"})
	s.outcomes(tx.Schedule(s.Context(), noon, schedule(key("acme", "last"), 1, noon)))
	s.must(tx.Commit())
	s.same("after it", list(s.store, timer.Filter{}), []timer.ServiceCallID{"call-000001", "call-1", "last", "new"})
	if _, err := tx.List(s.Context(), timer.Filter{TenantID: "acme"}); err == nil {
		s.Error("a transaction that has ended lists")
	}
}

func joinedReceipts(s *joinedSuite) {
	gone := s.begin()
	s.outcomes(gone.Schedule(s.Context(), noon, wanting("a", 1, noon)))
	s.must(gone.Rollback())
	s.countsAreRight()
	s.same("rolled back", len(s.receipts()), 0)
	s.schedule(wanting("b", 1, noon)) // which the store remembers
	kept := s.begin()
	s.outcomes(kept.Schedule(s.Context(), noon, wanting("a", 1, noon)))
	s.must(kept.Commit())
	s.schedule(wanting("c", 1, noon))
	var all []string
	for some := s.receipts(); len(some) > 0; some = s.receipts() {
		all = append(all, some...)
	}
	s.same("committed", all, []string{"b command-1 TimerScheduled ", "a command-1 TimerScheduled ", "c command-1 TimerScheduled "})
}

func joinedRefused(s *joinedSuite) {
	tx := s.begin()
	s.must(tx.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'booked')`))
	for range 2 { // the store learns from the first that there is a foreign key
		results, err := tx.Schedule(s.Context(), noon, single("none"), single("booked"))
		s.must(err)
		s.same("refused", errors.Is(results[0].Err, timer.ErrInvalid), true)
		s.must(results[1].Err)
	}
	s.must(tx.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'second')`))
	s.same("goes on", s.outcomes(tx.Schedule(s.Context(), noon, single("second"))), []timer.Outcome{timer.DidSchedule})
	s.must(tx.Commit())
	s.absent("none")
	s.same("timers", s.stats().Scheduled, int64(2))

	gone := s.begin() // with its service call
	s.must(gone.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'gone')`))
	s.outcomes(gone.Schedule(s.Context(), noon, single("gone")))
	s.must(gone.Rollback())
	s.absent("gone")
}

// absent checks that there are no timers for service calls of acme.
func (s *suite) absent(calls ...timer.ServiceCallID) {
	s.Helper()
	for _, call := range calls {
		if e, err := s.store.Get(s.Context(), key("acme", call)); !errors.Is(err, timer.ErrNotFound) {
			s.Errorf("%s is there: %+v, %v", call, e, err)
		}
	}
}

func (s *suite) nextDue() time.Time {
	s.Helper()
	due, err := s.store.NextDue(s.Context(), time.Time{})
	s.must(err)
	return due
}
