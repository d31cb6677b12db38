package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A forwarding reads a shard as its forwarder does.
type forwarding struct {
	*testing.T
	store *postgres.Store
	db    *sql.DB // of another process
	lease outbox.Lease
	after int64
}

func newForwarding(t *testing.T) *forwarding {
	t.Helper()
	url := pgtest.URL(t)
	s := open(t, url, relaxed)
	l := own(t, s)
	t.Cleanup(l.Release)
	return &forwarding{T: t, store: s, db: handle(t, url), lease: l}
}

// head wants the events of these calls next, in this order.
func (f *forwarding) head(limit int, want ...string) {
	f.Helper()
	rows, err := f.lease.Head(f.Context(), f.after, limit)
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		got = append(got, row.Message.Metadata.Get(envelope.HeaderServiceCallID))
		f.after = max(f.after, row.Seq)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("head (-want +got):\n%s", diff)
	}
}

// emit adds events in one transaction.
func (f *forwarding) emit(calls ...string) {
	f.Helper()
	if err := f.store.Update(f.Context(), func(tx timer.Tx) error { return tx.Emit(f.Context(), eventsOf(calls)...) }); err != nil {
		f.Fatal(err)
	}
}

func eventsOf(calls []string) (events []timer.DueTimeReached) {
	for _, call := range calls {
		events = append(events, timer.DueTimeReached{
			Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)}, CommandID: "command", DueAt: noon, ReachedAt: noon,
		})
	}
	return events
}

func TestCommittedEventsAreReturnedFromMemory(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("before", "it began")
	f.head(10, "before", "it began")
	f.emit("call-1", "call-2")
	f.emit("call-3")
	run(t, f.db, `DELETE FROM timer_outbox`) // so they are nowhere else
	f.head(2, "call-1", "call-2")
	f.head(2, "call-3")
	f.head(2)
}

func TestAReaderThatBeginsAgainReadsTheDatabase(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("call-1")
	f.head(10, "call-1")
	f.emit("call-2", "call-3", "call-4")
	f.head(2, "call-2", "call-3")
	f.after = 0 // the broker was away
	f.head(2, "call-1", "call-2")
	f.emit("call-5")
	f.head(2, "call-3", "call-4")
	f.head(2, "call-5")
	f.head(2)
	run(t, f.db, `INSERT INTO timer_outbox (shard, id, payload, headers, appended_at) SELECT shard, 'of another', payload, headers, appended_at FROM timer_outbox LIMIT 1`)
	f.after = 0
	f.head(10, "call-1", "call-2", "call-3", "call-4", "call-5", "call-1")
	f.head(10)
}

func TestEventsThatWereThereAreReadBeforeThoseInMemory(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("call-1", "call-2", "call-3")
	f.head(2, "call-1", "call-2")
	f.emit("call-4")
	f.head(1, "call-3")
	f.head(2, "call-4")
	f.head(2)
	if _, err := f.store.RetryParked(t.Context(), noon, 17); err != nil { // of which the numbers are not known
		t.Fatal(err)
	}
	f.emit("call-5")
	f.head(2, "call-5")
	f.head(2)
}

func TestTooManyEventsForMemoryAreRead(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("first")
	f.head(10, "first")
	var calls []string
	for i := range 12_000 {
		calls = append(calls, fmt.Sprintf("call-%05d", i))
	}
	for some := range slices.Chunk(calls, 6000) { // with two statements
		f.emit(some...)
	}
	for some := range slices.Chunk(calls, 5000) {
		f.head(5000, some...)
	}
	f.emit("last")
	f.head(10, "last")
}

// TestLateCommitIsReturnedFromMemory has a transaction commit behind another whose event
// has a higher number.
func TestLateCommitIsReturnedFromMemory(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("call-1")
	f.head(10, "call-1")
	before := f.after
	if err := f.store.Update(t.Context(), func(tx timer.Tx) error {
		if err := tx.Emit(t.Context(), eventsOf([]string{"late"})...); err != nil {
			return err
		}
		if _, err := tx.Reach(t.Context(), noon, 1, nil); err != nil { // sends both statements
			return err
		}
		f.emit("call-2")
		f.head(10, "call-2")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	run(t, f.db, `DELETE FROM timer_outbox`)
	f.head(10)
	f.after = before
	f.head(10, "late")
	f.after = before
	f.head(10)
}

func TestEventsOfAHostAreRead(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("call-1")
	f.head(10, "call-1")
	tx, err := f.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	command := schedule("call-2")
	command.Receipt = true
	if _, err := f.store.Join(tx).Schedule(t.Context(), noon, command); err != nil {
		t.Fatal(err)
	}
	before := f.after
	f.emit("call-3")
	f.head(10, "call-3")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	f.after = before
	f.head(10, "call-2", "call-3")
}

func TestAnotherShardHasItsOwnMemory(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	f.emit("call-1")
	f.head(10, "call-1")
	f.emit("call-2")
	f.lease.Release()
	f.lease = own(t, f.store)
	f.after = 0
	f.head(1, "call-1")
	f.head(1, "call-2")
	f.head(1)
}
