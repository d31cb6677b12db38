package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // a driver that is not pgx's

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestOtherDriverIsRefused gives the store a handle that is not of pgx.
func TestOtherDriverIsRefused(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer db.Close()
	s := postgres.New(db, postgres.Options{})
	_, scheduled := s.Schedule(t.Context(), noon, schedule("call-1"))
	_, read := s.Get(t.Context(), schedule("call-1").Key)
	for what, err := range map[string]error{"Schedule": scheduled, "Get": read, "Migrate": postgres.Migrate(t.Context(), db), "Prepare": s.Prepare(t.Context())} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), `open it with pgx's, sql.Open("pgx", url)`) {
			t.Errorf("%s: %v, want it to name the driver", what, err)
		}
	}
}

// TestHostWithOtherDefaults uses a database whose sessions begin as ours must not.
func TestHostWithOtherDefaults(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	migrated(t, place)
	db := handle(t, place+"&default_transaction_isolation=serializable&default_transaction_read_only=on&bytea_output=escape"+
		"&default_query_exec_mode=simple_protocol")
	a, b := postgres.New(db, relaxed), postgres.New(db, relaxed)
	scheduled(t, a, "call-1", "call-2")
	if err := a.Update(t.Context(), func(tx timer.Tx) error {
		if _, err := tx.Reach(t.Context(), noon, 1, nil); err != nil {
			return err
		}
		if got := reach(t, b, 1); len(got) != 1 {
			t.Errorf("reached %v with another instance, want one", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestHostWithOneConnection leaves no connection to others.
func TestHostWithOneConnection(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	migrated(t, place)
	db := handle(t, place)
	db.SetMaxOpenConns(1)
	s := postgres.New(db, relaxed)
	scheduled(t, s, "call-1")
	if got := reach(t, s, 1); len(got) != 1 {
		t.Errorf("reached %v", got)
	}
}

// TestFirstUseInTransactionsOfAllConnections returns an error, since the check of the database has no
// connection. After it has one, they need no more.
func TestFirstUseInTransactionsOfAllConnections(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	migrated(t, place)
	db := handle(t, place)
	db.SetMaxOpenConns(2)
	s := postgres.New(db, relaxed)
	for _, prepared := range []bool{false, true} {
		if prepared {
			must(t, s.Prepare(t.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		errs := make(chan error, 2)
		var all []*sql.Tx
		for range cap(errs) {
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			all = append(all, tx)
		}
		for i, tx := range all {
			go func() {
				_, err := s.Join(tx).Schedule(ctx, noon, schedule(timer.ServiceCallID(fmt.Sprint("call-", i))))
				errs <- err
			}()
		}
		for range all {
			if err := <-errs; (err == nil) != prepared || !prepared && !strings.Contains(err.Error(), "call Prepare") {
				t.Errorf("prepared %t: %v", prepared, err)
			}
		}
		for _, tx := range all {
			must(t, tx.Rollback())
		}
		cancel()
	}
}

// TestMigrateWithOneConnectionIsRefused would wait for ever.
func TestMigrateWithOneConnectionIsRefused(t *testing.T) {
	t.Parallel()
	db := handle(t, pgtest.URL(t))
	db.SetMaxOpenConns(1)
	if err := postgres.Migrate(t.Context(), db); err == nil || !strings.Contains(err.Error(), "two are needed") {
		t.Errorf("migrate: %v", err)
	}
}

// waits returns when a session that uses our tables waits for a lock.
func waits(t *testing.T, db *sql.DB) {
	t.Helper()
	const query = `
		SELECT EXISTS (
		       SELECT 1
		         FROM pg_locks AS waits
		         JOIN pg_locks AS uses USING (pid)
		        WHERE NOT waits.granted AND uses.relation = 'timer_schedules'::regclass)`
	for waiting := false; !waiting; {
		must(t, db.QueryRowContext(t.Context(), query).Scan(&waiting))
	}
}

// TestReachPassesByWhatAnotherHolds has one instance in the middle of a
// transaction: the other one takes the rest, and waits for nothing.
func TestReachPassesByWhatAnotherHolds(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	scheduled(t, a, "call-1", "call-2", "call-3", "call-4", "call-5")
	ours := errors.New("ours")
	err := a.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, 2, nil) // backlogged
		if err != nil || len(entries) != 2 {
			t.Errorf("reached %d, %v, want 2", len(entries), err)
		}
		if got := reach(t, b, 1); len(got) != 1 { // backlogged too
			t.Errorf("the other one reached %v, want one", got)
		}
		if got := reach(t, b, 10); len(got) != 2 {
			t.Errorf("the other one reached %v, want the rest", got)
		}
		next, err := b.NextDue(t.Context(), time.Time{})
		if err != nil || !next.Equal(noon) {
			t.Errorf("next due: %v, %v", next, err)
		}
		return ours
	})
	if !errors.Is(err, ours) {
		t.Error(err)
	}
	if got := reach(t, b, 10); len(got) != 2 {
		t.Errorf("given back were %v, want 2", got)
	}
}

// TestPurgePassesByWhatAnotherHolds locks a timer that is over.
func TestPurgePassesByWhatAnotherHolds(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	canceled(t, s, "call-1", "call-2")
	host, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = host.Rollback() }()
	run(t, host, `SELECT 1 FROM timer_schedules WHERE service_call_id = 'call-1' FOR UPDATE`)
	deleted, err := s.Purge(t.Context(), noon.Add(time.Hour), 10)
	if err != nil || deleted != 1 {
		t.Errorf("purged %d, %v, want the one that is not locked", deleted, err)
	}
}

// TestTimerThatIsPurgedMeanwhileIsScheduledAnew purges one of two timers after a
// command has found both, and before it has locked them.
func TestTimerThatIsPurgedMeanwhileIsScheduledAnew(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	canceled(t, s, "call-1", "call-2")
	host, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = host.Rollback() }()
	run(t, host, `SELECT 1 FROM timer_schedules WHERE service_call_id = 'call-1' FOR UPDATE`)
	outcomes := make(chan []timer.Result)
	go func() {
		again := []timer.ScheduleTimer{schedule("call-1"), schedule("call-2")}
		for i := range again {
			again[i].TimestampMS = 3
		}
		got, err := s.Schedule(t.Context(), noon, again...)
		if err != nil {
			t.Error(err)
		}
		outcomes <- got
	}()
	waits(t, s.DB())
	if deleted, err := s.Purge(t.Context(), noon.Add(time.Hour), 10); err != nil || deleted != 1 {
		t.Errorf("purged %d, %v, want call-2", deleted, err)
	}
	must(t, host.Rollback())
	if got := <-outcomes; !slices.Equal(got, slices.Repeat([]timer.Result{{Outcome: timer.DidSchedule}}, 2)) {
		t.Errorf("the commands got %v", got)
	}
	for _, call := range []timer.ServiceCallID{"call-1", "call-2"} {
		if e := get(t, s, call); e.State != timer.Scheduled {
			t.Errorf("%s is %s", call, e.State)
		}
	}
}

// A comment on the table of versions says which instances may go on.
const goOn = `COMMENT ON TABLE timer_schema IS 'schema %d, instances from %d on may go on'`

// TestInstanceGoesOnBesideANewerSchema has a newer binary migrate under an instance that
// runs: it goes on if the step says that it may, and an instance that starts does not.
func TestInstanceGoesOnBesideANewerSchema(t *testing.T) {
	t.Parallel()
	next := int(postgres.SchemaVersion) + 1
	for name, c := range map[string]struct {
		comment string
		may     bool
		applied int
	}{
		"a step that says it may":                       {fmt.Sprintf(goOn, next, postgres.SchemaVersion), true, next},
		"a step that says that an older one may":        {fmt.Sprintf(goOn, next, postgres.SchemaVersion-1), true, next},
		"a step that says nothing":                      {`SELECT 1`, false, next},
		"a step that says that it may not":              {fmt.Sprintf(goOn, next, next), false, next},
		"a step after one that said so, without a word": {fmt.Sprintf(goOn, next, postgres.SchemaVersion), false, next + 1},
		"a comment of another form":                     {`COMMENT ON TABLE timer_schema IS 'ours'`, false, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s := open(t, url, relaxed)
			scheduled(t, s, "call-1")
			run(t, s.DB(), `ALTER TABLE timer_schedules ADD COLUMN added text`, c.comment,
				fmt.Sprintf(`INSERT INTO timer_schema (version_id, is_applied) VALUES (%d, true)`, c.applied))
			if err := postgres.CheckRunning(t.Context(), s); (err == nil) != c.may || !c.may && !errors.Is(err, timer.ErrFatal) {
				t.Errorf("the instance that runs: %v, may go on: %v", err, c.may)
			}
			if c.may {
				scheduled(t, s, "call-2")
			}
			if _, err := postgres.Open(t.Context(), url, relaxed); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("an instance that starts: %v, want ErrFatal", err)
			}
		})
	}
}

// TestStepsSayWhoMayGoOn wants of each later step that it gives up locks, and says which
// instances may go on with it.
func TestStepsSayWhoMayGoOn(t *testing.T) {
	t.Parallel()
	for version := int64(2); version <= postgres.SchemaVersion; version++ {
		names, err := fs.Glob(postgres.Migrations(), fmt.Sprintf("%05d_*.sql", version))
		if err != nil || len(names) != 1 {
			t.Fatalf("step %d: %v, %v", version, names, err)
		}
		text, err := fs.ReadFile(postgres.Migrations(), names[0])
		must(t, err)
		if !strings.Contains(string(text), "SET LOCAL lock_timeout = '2s';") {
			t.Errorf("%s has no SET LOCAL lock_timeout = '2s';", names[0])
		}
		if !strings.Contains(string(text), fmt.Sprintf("COMMENT ON TABLE timer_schema IS 'schema %d, instances from ", version)) {
			t.Errorf("%s says nothing of which instances may go on: see CONTRIBUTING.md", names[0])
		}
	}
}

// TestInstancesNeedFewRights for what they share: the role owns nothing, and another one has
// migrated. [TestOwnHandle] has their other rights.
func TestInstancesNeedFewRights(t *testing.T) {
	t.Parallel()
	place := withFewRights(t, pgtest.URL(t))
	s, err := postgres.Open(t.Context(), place, postgres.Options{})
	must(t, err)
	defer s.Close()
	if other, err := s.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "" {
		t.Errorf("attach: %q is used, %v", other, err)
	}
	must(t, s.Alone(t.Context(), func(context.Context) error { return nil }))
	lead := own(t, s)
	defer lead.Release()
	takeOver(t, s)
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 || !nodes[0].Self {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `DROP TABLE timer_outbox`); err == nil || !strings.Contains(err.Error(), "owner") {
		t.Errorf("the role may drop a table: %v", err)
	}
}

// withFewRights migrates a schema, and returns its URL for a role that has the
// rights that docs/deploying.md names, and no others.
func withFewRights(t testing.TB, place string) string {
	t.Helper()
	admin := migrated(t, place)
	u, err := url.Parse(place)
	must(t, err)
	schema := u.Query().Get("search_path")
	role := "role_of_" + schema
	for _, text := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'few rights'`,
		`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + schema + ` TO ` + role,
	} {
		run(t, admin, text)
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %s; DROP ROLE %s`, role, role)); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "few rights")
	return u.String()
}

// TestAbsentServersAreToldFromThoseThatRefuse opens databases that can't be
// opened. Only a server that may come is worth waiting for.
func TestAbsentServersAreToldFromThoseThatRefuse(t *testing.T) {
	t.Parallel()
	there := pgtest.URL(t)
	u, err := url.Parse(there)
	must(t, err)
	u.Path += "_not"
	for address, absent := range map[string]bool{
		"postgres://postgres@127.0.0.1:1/db":                          true,
		"postgres://postgres@no-such-host.invalid/db?sslmode=require": true,
		"postgres:///db?host=/no/such/socket":                         true,
		u.String():                                                    false, // no such database
		there + "&default_transaction_isolation=nonsense":             false,
		"postgres://a:b/c@host/db":                                    false, // no URL
	} {
		s, err := postgres.Open(t.Context(), address, postgres.Options{})
		if err == nil {
			t.Errorf("%s: opened", address)
			_ = s.Close()
			continue
		}
		if got := postgres.IsAbsent(err); got != absent {
			t.Errorf("%s: %v, absent is %v, want %v", address, err, got, absent)
		}
	}
}

// TestOtherMachinesNeedATLSMode: without one pgx sends the password in clear if the server, or who
// is in its place, refuses TLS. A mode that is named is the user's.
func TestOtherMachinesNeedATLSMode(t *testing.T) {
	t.Parallel()
	for address, named := range map[string]bool{
		"postgres://u:hunter2@db.invalid/timers":                 false,
		"postgres://u:hunter2@localhost,192.0.2.1/timers":        false,
		"postgres:///timers?host=db.invalid":                     false,
		"host=db.invalid user=u":                                 false,
		"postgres://u:hunter2@db.invalid/timers?sslmode=prefer":  true,
		"postgres://u:hunter2@db.invalid/timers?sslmode=disable": true,
		"postgres://u:hunter2@localhost/timers":                  true,
		"postgres://u:hunter2@127.0.0.2,[::1]/timers":            true,
		"postgres:///timers?host=/run/postgresql":                true,
	} {
		db, err := postgres.Connect(address)
		if err == nil {
			must(t, db.Close())
		}
		if refused := err != nil && strings.Contains(err.Error(), "sslmode=verify-full"); refused == named {
			t.Errorf("%s: %v, want it refused: %v", address, err, !named)
		}
	}
}

// TestCheckFindsALock has another transaction lock our tables: against all, and
// against what writes, as CREATE INDEX does.
func TestCheckFindsALock(t *testing.T) {
	t.Parallel()
	place := withFewRights(t, pgtest.URL(t))
	s, other := open(t, place, relaxed), open(t, place, relaxed)
	for _, lock := range []string{
		`LOCK TABLE timer_schedules IN ACCESS EXCLUSIVE MODE`,
		`LOCK TABLE timer_outbox IN SHARE MODE`,
	} {
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("before: %v", err)
		}
		tx, err := other.DB().BeginTx(t.Context(), nil)
		must(t, err)
		run(t, tx, lock)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "another transaction holds a lock") {
			t.Errorf("%s: %v", lock, err)
		}
		must(t, tx.Rollback())
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}
