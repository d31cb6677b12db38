package postgres_test

import (
	"database/sql"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// database returns a database of its own, with a schema, and its name.
func database(t *testing.T) (place, name string, db *sql.DB) {
	t.Helper()
	place = pgtest.Database(t)
	u, err := url.Parse(place)
	must(t, err)
	return place, path.Base(u.Path), migrated(t, place)
}

// TestNothingIsWrittenToADatabaseThatIsSetReadOnly, as a person sets an old primary after a
// failover: neither in sessions that were there before, nor in new ones, nor in transactions of
// a host. The lease is given up. It goes on when the setting is taken back.
func TestNothingIsWrittenToADatabaseThatIsSetReadOnly(t *testing.T) {
	t.Parallel()
	place, database, db := database(t)
	s, host := open(t, place, relaxed), postgres.New(handle(t, place), relaxed)
	scheduled(t, s, "call-1")
	scheduled(t, host, "call-2")
	lease := own(t, s)
	defer lease.Release()
	run(t, db, "ALTER DATABASE "+database+" SET default_transaction_read_only = on")
	const why = "is set read-only"
	for _, s := range []*postgres.Store{s, host} {
		if err := postgres.CheckRunning(t.Context(), s); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("the check: %v, want %q", err, why)
		}
		_, scheduled := s.Schedule(t.Context(), noon, schedule("call-3"))
		for what, err := range map[string]error{
			"schedule": scheduled,
			"update":   s.Update(t.Context(), func(timer.Tx) error { return nil }),
			"transact": s.Transact(t.Context(), func(*sql.Tx) error { return nil }),
			"pgx":      s.Pgx().Transact(t.Context(), func(pgx.Tx) error { return nil }),
		} {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", what, err, why)
			}
		}
	}
	<-lease.Lost()
	if _, err := s.Own(t.Context(), outbox.Receivers{}); err == nil {
		t.Error("owns a shard")
	}
	if _, err := postgres.Open(t.Context(), place, relaxed); err == nil || !strings.Contains(err.Error(), why) || !postgres.IsAbsent(err) {
		t.Errorf("open: %v, want that it waits", err)
	}
	run(t, db, "ALTER DATABASE "+database+" RESET default_transaction_read_only") // in a session that is older than the setting
	for _, s := range []*postgres.Store{s, host} {
		scheduled(t, s, "call-4")
		must(t, postgres.CheckRunning(t.Context(), s))
	}
}

// TestARoleMayBeginReadOnly, which is what a host has set for its role alone.
func TestARoleMayBeginReadOnly(t *testing.T) {
	t.Parallel()
	place, database, db := database(t)
	var role string
	must(t, db.QueryRowContext(t.Context(), "SELECT quote_ident(session_user)").Scan(&role))
	run(t, db, "ALTER ROLE "+role+" IN DATABASE "+database+" SET default_transaction_read_only = on")
	s := open(t, place, relaxed)
	scheduled(t, s, "call-1")
	must(t, postgres.CheckRunning(t.Context(), s))
	must(t, s.Transact(t.Context(), func(tx *sql.Tx) error {
		_, err := s.Join(tx).Schedule(t.Context(), noon, schedule("call-2"))
		return err
	}))
	if got := reach(t, s, 10); len(got) != 2 {
		t.Errorf("reached %v", got)
	}
	run(t, db, "ALTER DATABASE "+database+" SET default_transaction_read_only = on")
	if err := postgres.CheckRunning(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is set read-only") {
		t.Errorf("the role hides the setting of the database: %v", err)
	}
	run(t, db, "ALTER ROLE "+role+" IN DATABASE "+database+" SET default_transaction_read_only = off") // decided for the role
	must(t, postgres.CheckRunning(t.Context(), s))
	scheduled(t, open(t, place, relaxed), "call-3")
}
