package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// deferAll defers the events of a table, and returns where they are then.
func deferAll(t *testing.T, table outbox.Table) []outbox.Row {
	t.Helper()
	rows, err := table.Head(t.Context(), 0, 100)
	must(t, err)
	for _, row := range rows {
		must(t, table.Defer(t.Context(), outbox.Deferral{Place: row.Place, Destination: "refused", Reason: "denied", RetryAt: noon}))
	}
	rows, err = table.Deferred(t.Context(), noon, "", 100, 100)
	must(t, err)
	return rows
}

// deleteHead deletes the events of a table that are not deferred.
func deleteHead(t *testing.T, table outbox.Table) (deleted []outbox.Row) {
	t.Helper()
	deleted, err := table.Head(t.Context(), 0, 100)
	must(t, err)
	for _, row := range deleted {
		must(t, table.Delete(t.Context(), row.Place))
	}
	return deleted
}

// TestNumbersGoOnBehindRowsThatWereMoved moves rows into a new database without the
// state of its sequence, as logical replication does.
func TestNumbersGoOnBehindRowsThatWereMoved(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	before := open(t, place, relaxed)
	lead := own(t, before)
	for i := range 3 {
		emit(t, before, timer.ServiceCallID(fmt.Sprint("refused-", i)))
	}
	old := deferAll(t, lead)
	lead.Release()

	moved := pgtest.URL(t)
	db := migrated(t, moved)
	u, err := url.Parse(place)
	must(t, err)
	run(t, db, `INSERT INTO timer_outbox_deferred SELECT * FROM `+u.Query().Get("search_path")+`.timer_outbox_deferred`)
	after := open(t, moved, relaxed)
	lead = own(t, after)
	defer lead.Release()
	emit(t, after, "accepted")
	accepted := deleteHead(t, lead)
	if len(accepted) != 1 || accepted[0].Seq <= old[len(old)-1].Seq {
		t.Errorf("new rows %v, want one behind %v", accepted, old)
	}
	left, err := lead.Deferred(t.Context(), noon, "", 100, 100)
	if err != nil || len(left) != len(old) {
		t.Errorf("%d deferred events are left, %v, want %d", len(left), err, len(old))
	}
}

// TestASequenceThatBeginsAgainTakesNoEvent has numbers given twice while the service
// runs. Events that wait stay, and those whose number is taken are deferred later.
func TestASequenceThatBeginsAgainTakesNoEvent(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	lead := own(t, s)
	defer lead.Release()
	for i := range 3 {
		emit(t, s, timer.ServiceCallID(fmt.Sprint("refused-", i)))
	}
	old := deferAll(t, lead)
	run(t, s.DB(), fmt.Sprintf(`ALTER TABLE timer_outbox ALTER COLUMN seq RESTART WITH %d`, old[0].Seq))
	emit(t, s, "accepted")
	if accepted := deleteHead(t, lead); len(accepted) != 1 || accepted[0].Seq != old[0].Seq {
		t.Fatalf("new rows %v, want one with number %d", accepted, old[0].Seq)
	}
	emit(t, s, "taken")
	taken, err := lead.Head(t.Context(), 0, 1)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	if err := s.Transact(t.Context(), func(tx *sql.Tx) error {
		there, err := s.TakeEvent(t.Context(), tx, taken[0].Place)
		if !there {
			t.Error("an event is gone")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	left, err := lead.Deferred(t.Context(), noon, "", 100, 100)
	if err != nil || len(left) != len(old) {
		t.Errorf("%d deferred events are left, %v, want %d", len(left), err, len(old))
	}
}

// TestMissingRightsAreNamedAtTheStart takes a right away that only trouble needs.
func TestMissingRightsAreNamedAtTheStart(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	few := withFewRights(t, place)
	u, err := url.Parse(few)
	must(t, err)
	run(t, handle(t, place), `REVOKE INSERT ON timer_outbox_deferred FROM `+u.User.Username())
	s, err := postgres.Open(t.Context(), few, postgres.Options{})
	if err == nil {
		defer s.Close()
		err = s.Prepare(t.Context())
	}
	if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "timer_outbox_deferred") {
		t.Errorf("started: %v, want a refusal that names the table", err)
	}
}

// TestALeaseIsInNobodysWay changes a table while leases are held, one of them of a shard
// that was taken over.
func TestALeaseIsInNobodysWay(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	s := open(t, place, relaxed)
	run(t, s.DB(), `INSERT INTO timer_outbox_deferred (shard, seq, id, payload, headers, appended_at, retry_at, attempts, destination, last_error)
		VALUES (7, 1, 'id', '', '{}', now(), now(), 1, 'refused', 'denied')`)
	lead := own(t, s)
	defer lead.Release()
	abandoned := takeOver(t, s)
	if abandoned == nil || abandoned.Shard() != 7 {
		t.Fatalf("took over %v, want shard 7", abandoned)
	}
	defer abandoned.Release()
	run(t, handle(t, place+"&lock_timeout=5s"), `REINDEX TABLE timer_outbox`, `ALTER TABLE timer_outbox_deferred ADD COLUMN more text`)
}
