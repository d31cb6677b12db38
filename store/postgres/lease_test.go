package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

func own(t *testing.T, s *postgres.Store) outbox.Lease {
	t.Helper()
	l, err := s.Own(t.Context(), outbox.Receivers{})
	must(t, err)
	return l
}

func takeOver(t *testing.T, s *postgres.Store) outbox.Lease {
	t.Helper()
	l, err := s.TakeOver(t.Context())
	must(t, err)
	return l
}

// awaitAbandoned takes over an abandoned shard as soon as there is one.
func awaitAbandoned(t *testing.T, s *postgres.Store) outbox.Lease {
	t.Helper()
	for {
		if l := takeOver(t, s); l != nil {
			return l
		}
		if !pause.For(t.Context(), 50*time.Millisecond) {
			t.Fatal("there is no abandoned shard")
		}
	}
}

func emit(t *testing.T, s *postgres.Store, call timer.ServiceCallID) {
	t.Helper()
	must(t, storetest.Emit(t.Context(), s, call))
}

func length(t *testing.T, table outbox.Table) int {
	t.Helper()
	rows, err := table.Head(t.Context(), 0, 100)
	must(t, err)
	return len(rows)
}

func TestEachInstanceOwnsAShard(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	a, b := own(t, first), own(t, second)
	if a.Shard() == b.Shard() {
		t.Fatalf("both own shard %d", a.Shard())
	}
	emit(t, first, "call-1")
	emit(t, second, "call-2")
	emit(t, second, "call-3")
	if length(t, a) != 1 || length(t, b) != 2 {
		t.Errorf("the shards hold %d and %d events, want 1 and 2", length(t, a), length(t, b))
	}
	for _, s := range []*postgres.Store{first, second} {
		if l := takeOver(t, s); l != nil {
			t.Errorf("shard %d is led and was taken", l.Shard())
		}
	}
	b.Release()
	taken := takeOver(t, first)
	if taken == nil || taken.Shard() != b.Shard() || length(t, taken) != 2 {
		t.Fatalf("took %v, want shard %d with its events", taken, b.Shard())
	}
	if l := takeOver(t, second); l != nil {
		t.Errorf("shard %d was taken twice", l.Shard())
	}
	taken.Release()
	a.Release()
	if l := own(t, second); l.Shard() != a.Shard() {
		t.Errorf("took shard %d, want the lowest that is free, %d", l.Shard(), a.Shard())
	} else {
		l.Release()
	}
}

// TestEveryAbandonedShardHasItsTurn has shards of which only deferred events are left, and
// one with an event that is not.
func TestEveryAbandonedShardHasItsTurn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var gone []outbox.Lease
	for n := range 4 {
		s := open(t, url, relaxed)
		l := own(t, s)
		emit(t, s, timer.ServiceCallID(fmt.Sprint("call-", n)))
		gone = append(gone, l)
		if n == 3 {
			break
		}
		rows, err := l.Head(t.Context(), 0, 1)
		must(t, err)
		must(t, l.Defer(t.Context(), outbox.Deferral{Place: rows[0].Place, Destination: "events", Reason: "no answer", RetryAt: noon}))
	}
	s := open(t, url, relaxed)
	defer own(t, s).Release()
	for _, l := range gone {
		l.Release()
	}
	first := takeOver(t, s)
	if first == nil || first.Shard() != gone[3].Shard() {
		t.Fatalf("took %v first, want the shard with an event that is not deferred", first)
	}
	defer first.Release()
	turns := make(map[int]int)
	for n := 0; n < 200 && len(turns) < 3; n++ {
		l := takeOver(t, s)
		turns[l.Shard()]++
		l.Release()
	}
	if len(turns) != 3 {
		t.Errorf("shards by how often they were taken over: %v, want each of 3", turns)
	}
}

func TestSchemasOfADatabaseHaveTheirOwnShards(t *testing.T) {
	t.Parallel()
	one := own(t, open(t, pgtest.URL(t), postgres.Options{}))
	other := own(t, open(t, pgtest.URL(t), postgres.Options{}))
	if one.Shard() != other.Shard() {
		t.Errorf("shards %d and %d, want the first of each schema", one.Shard(), other.Shard())
	}
	one.Release()
	other.Release()
}

// TestALostConnectionIsALostLease ends the session that holds a lease.
func TestALostConnectionIsALostLease(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	l := own(t, first)
	emit(t, first, "call-1")
	defer own(t, second).Release()
	terminate(t, handle(t, url), l.Shard())
	taken := awaitAbandoned(t, second)
	if taken.Shard() != l.Shard() || length(t, taken) != 1 {
		t.Errorf("took shard %d, want %d with its event", taken.Shard(), l.Shard())
	}
	<-l.Lost()
	l.Release()
	again := own(t, first)
	if again.Shard() == taken.Shard() {
		t.Error("two own one shard")
	}
	again.Release()
	taken.Release()
}

// leaseLock is what a lease is in pg_locks.
const leaseLock = `locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		                  AND classid = (hashtext('timer_outbox ' || current_schema())::bigint & 4294967295)::oid`

// terminate ends the session that holds the lease of a shard.
func terminate(t *testing.T, db *sql.DB, shard int) {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), `
		SELECT count(pg_terminate_backend(pid, 5000))
		  FROM (SELECT DISTINCT pid FROM pg_locks
		         WHERE `+leaseLock+` AND objid::integer = $1) AS holders`, shard).
		Scan(&n); err != nil || n != 1 {
		t.Fatalf("ended %d sessions, want 1: %v", n, err)
	}
}

// TestALeaderThatIsStoppedLosesItsLead cuts an instance off without an end of its
// connections. Before others may own its shard it must not read from it any more.
func TestALeaderThatIsStoppedLosesItsLead(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	config, err := pgx.ParseConfig(url)
	must(t, err)
	relay := proxy.New(proxy.TCP(net.JoinHostPort(config.Host, fmt.Sprint(config.Port))))
	address, err := relay.Listen()
	must(t, err)
	defer relay.Close()
	host, port, _ := net.SplitHostPort(address)
	first, second := open(t, url+"&host="+host+"&port="+port, postgres.Options{}), open(t, url, postgres.Options{})
	l := own(t, first)
	emit(t, first, "call-1")
	defer own(t, second).Release()
	relay.Drop(proxy.ToServer, proxy.ToClient)
	taken := awaitAbandoned(t, second)
	if taken.Shard() != l.Shard() {
		t.Errorf("took shard %d, want %d", taken.Shard(), l.Shard())
	}
	if rows, err := l.Head(t.Context(), 0, 1); err == nil {
		t.Errorf("read %d rows though others own the shard", len(rows))
	}
	relay.Reset()
	<-l.Lost()
	l.Release()
	taken.Release()
}

// TestALeaseHoldsBackNoVacuum reads what the session of a lease holds.
func TestALeaseHoldsBackNoVacuum(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := own(t, open(t, url, postgres.Options{}))
	defer l.Release()
	var state string
	var xmin, xid *string
	if err := handle(t, url).QueryRowContext(t.Context(), `
		SELECT state, backend_xmin::text, backend_xid::text
		  FROM pg_stat_activity
		 WHERE pid IN (SELECT pid FROM pg_locks
		                WHERE `+leaseLock+`)`).
		Scan(&state, &xmin, &xid); err != nil {
		t.Fatal(err)
	}
	if state != "idle in transaction" || xmin != nil || xid != nil {
		t.Errorf("the session is %s with snapshot %v and number %v, want idle in transaction and neither", state, xmin, xid)
	}
}

func TestInstancesAreCounted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	if n := first.Instances(); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
	a, b := own(t, first), own(t, second)
	defer a.Release()
	if n := second.Instances(); n != 2 {
		t.Errorf("the second sees %d instances as soon as it owns a shard, want 2", n)
	}
	for first.Instances() != 2 {
		if !pause.For(t.Context(), 50*time.Millisecond) {
			t.Fatal("the other instance is not counted")
		}
	}
	b.Release()
	for first.Instances() != 1 {
		if !pause.For(t.Context(), 50*time.Millisecond) {
			t.Fatal("an instance that is gone is counted")
		}
	}
}

// TestLeasesLeaveAConnection has more abandoned shards than the handle has
// connections.
func TestLeasesLeaveAConnection(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t))
	db.SetMaxOpenConns(3)
	run(t, db, `INSERT INTO timer_outbox (id, payload, headers, appended_at, shard) SELECT 'id', '', '{}', now(), generate_series(0, 5)`)
	s := postgres.New(db, relaxed)
	leases := []outbox.Lease{own(t, s), takeOver(t, s)}
	defer func() {
		for _, l := range leases {
			l.Release()
		}
	}()
	if l, err := s.TakeOver(t.Context()); l != nil || err == nil || errors.Is(err, timer.ErrFatal) {
		t.Errorf("took %v, %v, want an error that may pass", l, err)
	}
	for _, l := range leases {
		if length(t, l) != 1 {
			t.Error("a shard that is led has no event")
		}
	}
}

func TestHandleWithTooFewConnectionsIsRefused(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t))
	db.SetMaxOpenConns(2)
	if _, err := postgres.New(db, relaxed).Own(t.Context(), outbox.Receivers{}); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "3 or more") {
		t.Errorf("own: %v, want ErrFatal and how many it needs", err)
	}
}

// TestLeadInAnySession has sessions that pgx sends nothing in one piece to.
func TestLeadInAnySession(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	migrated(t, url)
	for _, setting := range []string{"standard_conforming_strings=off", "client_encoding=LATIN1"} {
		own(t, postgres.New(handle(t, url+"&"+setting), relaxed)).Release()
	}
}

// TestAnyReasonIsKept parks an event with a reason that is no text.
func TestAnyReasonIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	emit(t, s, "call-1")
	rows, err := s.Head(t.Context(), 0, 1)
	must(t, err)
	const reason = "refused: \xff\x00!"
	if err := errors.Join(s.Defer(t.Context(), outbox.Deferral{Place: rows[0].Place, Destination: reason, Reason: reason, RetryAt: noon}), s.Park(t.Context(), noon, outbox.Place{Seq: rows[0].Seq, Deferred: true}, reason)); err != nil {
		t.Error(err)
	}
	var kept string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT last_error FROM timer_outbox_parked`).Scan(&kept); err != nil || kept != "refused: \uFFFD\uFFFD!" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestServerTellsTheTime(t *testing.T) {
	t.Parallel()
	now, err := open(t, pgtest.URL(t), postgres.Options{}).Now(t.Context())
	if err != nil || time.Since(now).Abs() > time.Hour {
		t.Errorf("now is %v, %v", now, err)
	}
}

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
