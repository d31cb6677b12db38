package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// A Kind is a kind of database, as the tests of its schema and of its handles need it. The
// functions without a comment are those of the package.
type Kind struct {
	Package      string
	Dialect      goose.Dialect
	Version      int64 // of the schema
	VersionTable string

	Empty  func(testing.TB) (place string)                     // makes a new database without tables
	Handle func(t testing.TB, place string) *sql.DB            // opens a handle of a host, which is closed when the test ends
	Exec   func(t testing.TB, db *sql.DB, script string)       // runs several statements
	Schema func(t testing.TB, db *sql.DB) (described []string) // returns equal lines, sorted, for equal schemas
	Time   func(time.Time) string                              // returns a time as a literal of SQL
	Refuse func(table string) (refuse, allow string)           // returns statements that make a database refuse all writes to a table, and that end it

	Open       func(ctx context.Context, place string, log *slog.Logger) (OpenStore, error)
	OpenReader func(ctx context.Context, place string) (OpenReader, error)
	New        func(*sql.DB) OpenStore

	Migrations            func() fs.FS
	MigrationSQL          func(from int64) (string, error)
	MigrateFrom           func(context.Context, *sql.DB) (from, to int64, err error)
	Verify                func(context.Context, *sql.DB) error
	VersionOf             func(ctx context.Context, place string) (int64, error)
	ReferenceServiceCalls func(context.Context, *sql.DB) error
}

// An OpenStore is a store on a handle of its own, or on that of a host.
type OpenStore interface {
	JoinedStore
	Prepare(ctx context.Context) error
	Watch(ctx context.Context) error
	Close() error
}

// An OpenReader reads a database next to its services.
type OpenReader interface {
	timer.Reader
	Close() error
}

// RunDatabase tests what becomes of a database from the first migration on.
func RunDatabase(t *testing.T, kind Kind) {
	for _, c := range []struct {
		name string
		test func(*database)
	}{
		{"Every version of the schema is migrated, also by hand, and loses no row", everyVersion},
		{"A host's own migrations have another version", migrateBesideAHost},
		{"A host applies the migrations with a goose of its own", migratedByAHost},
		{"Tables without the table of versions are refused, and the error names the option of goose", unversioned},
		{"Many migrate at once", manyMigrate},
		{"A newer schema is refused in each way to open it", newerSchema},
		{"An older schema is not used, and the error says how to migrate", olderSchema},
		{"A database from before the first release is refused, and the error says how to move", beforeTheRelease},
		{"Rows that break an invariant are refused by its name", rowsKeepTheInvariants},
		{"A view shows the times in ISO 8601", viewForPeople},
		{"A new database is logged, once", newIsLogged},
		{"Close waits for the transaction at work", closeWaits},
		{"A host's transaction on another database is refused, and goes on", joinElsewhere},
		{"The reference to service calls is refused where it can't hold, and changes nothing", referenceRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&database{T: t, Kind: kind})
		})
	}
}

// A database has the tools of a case.
type database struct {
	*testing.T
	Kind
}

func (d *database) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// migrated returns a handle of a host on a database, and migrates it.
func (d *database) migrated(place string) *sql.DB {
	d.Helper()
	db := d.Handle(d, place)
	_, _, err := d.MigrateFrom(d.Context(), db)
	d.must(err)
	return db
}

// host returns a store on the handle of a host.
func (d *database) host(db *sql.DB) OpenStore {
	s := d.New(db)
	d.Cleanup(func() {
		if err := s.Close(); err != nil {
			d.Error(err)
		}
	})
	return s
}

// same compares two descriptions of a schema.
func (d *database) same(what string, got, want []string) {
	d.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		d.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// uses returns the errors of all that begins to use a database.
func (d *database) uses(place string) map[string]error {
	d.Helper()
	db := d.Handle(d, place)
	s := d.host(db)
	store, opened := d.Open(d.Context(), place, nil)
	if opened == nil {
		d.must(store.Close())
	}
	reader, read := d.OpenReader(d.Context(), place)
	if read == nil {
		d.must(reader.Close())
	}
	_, scheduled := s.Schedule(d.Context(), noon, single("call-1"))
	_, _, migrated := d.MigrateFrom(d.Context(), db)
	return map[string]error{
		"Open": opened, "OpenReader": read, "Verify": d.Verify(d.Context(), db), "Migrate": migrated,
		"Schedule": scheduled, "Prepare": s.Prepare(d.Context()), "Watch": s.Watch(d.Context()),
	}
}

// everyVersion migrates a database of each version, see [fixture]. It must end with the schema
// of a new one.
func everyVersion(d *database) {
	want := d.Schema(d, d.migrated(d.Empty(d)))
	steps := func(from int64) string {
		script, err := d.MigrationSQL(from)
		d.must(err)
		return script
	}
	for from := range d.Version + 1 {
		first, is := strings.CutSuffix(steps(0), steps(from))
		if !is {
			d.Fatalf("the steps from %d are not the end of all", from)
		}
		if from > 0 {
			first = fixture(d.T, from, first)
		}
		for how, migrate := range map[string]func(db *sql.DB){
			"migrated": func(db *sql.DB) {
				if was, is, err := d.MigrateFrom(d.Context(), db); was != from || is != d.Version || err != nil {
					d.Errorf("migrated from %d to %d, %v", was, is, err)
				}
			},
			"by hand": func(db *sql.DB) { d.Exec(d, db, steps(from)) },
		} {
			what := fmt.Sprintf("from %d, %s", from, how)
			place := d.Empty(d)
			db := d.Handle(d, place)
			d.Exec(d, db, first)
			if v, err := d.VersionOf(d.Context(), place); v != from || err != nil {
				d.Fatalf("%s: begins with version %d, %v", what, v, err)
			}
			migrate(db)
			d.must(d.Verify(d.Context(), db))
			d.same(what, d.Schema(d, db), want)
			if from > 0 {
				holds(d.T, from, d.host(db))
			}
		}
	}
}

func migrateBesideAHost(d *database) {
	place := d.Empty(d)
	d.Exec(d, d.Handle(d, place), `CREATE TABLE goose_db_version (id integer PRIMARY KEY, version_id bigint, is_applied boolean, tstamp timestamp);
		INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, true), (2, 99, true)`)
	d.must(d.Verify(d.Context(), d.migrated(place)))
}

func migratedByAHost(d *database) {
	db := d.Handle(d, d.Empty(d))
	provider, err := goose.NewProvider(d.Dialect, db, d.Migrations(), goose.WithTableName(d.VersionTable), goose.WithDisableGlobalRegistry(true))
	d.must(err)
	_, err = provider.Up(d.Context())
	d.must(err)
	d.must(d.Verify(d.Context(), db))
	_, err = d.host(db).Schedule(d.Context(), noon, single("call-1"))
	d.must(err)
}

// unversioned has a host that applies the migrations without the options of its goose.
func unversioned(d *database) {
	place := d.Empty(d)
	provider, err := goose.NewProvider(d.Dialect, d.Handle(d, place), d.Migrations())
	d.must(err)
	_, _ = provider.Up(d.Context()) // a later step may need the table of versions, and fail
	errs := d.uses(place)
	_, errs["VersionOf"] = d.VersionOf(d.Context(), place)
	for what, err := range errs {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), d.VersionTable) || !strings.Contains(err.Error(), "goose.WithTableName") {
			d.Errorf("%s: %v, want ErrFatal that names the option and the table", what, err)
		}
	}
}

func manyMigrate(d *database) {
	place := d.Empty(d)
	var running sync.WaitGroup
	for range 6 {
		db := d.Handle(d, place)
		running.Go(func() {
			_, _, err := d.MigrateFrom(d.Context(), db)
			if err := errors.Join(err, d.Verify(d.Context(), db)); err != nil {
				d.Error(err)
			}
		})
	}
	running.Wait()
	var steps int64
	d.must(d.Handle(d, place).QueryRowContext(d.Context(), `SELECT count(*) FROM `+d.VersionTable+` WHERE version_id > 0`).Scan(&steps))
	if steps != d.Version {
		d.Errorf("%d steps were applied, want %d", steps, d.Version)
	}
}

func newerSchema(d *database) {
	place := d.Empty(d)
	d.Exec(d, d.migrated(place), `INSERT INTO `+d.VersionTable+` (version_id, is_applied) VALUES (17, true)`)
	for what, err := range d.uses(place) {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("version 17, this binary knows %d", d.Version)) {
			d.Errorf("%s: %v, want ErrFatal with both versions", what, err)
		}
	}
}

// olderSchema has a host forget to migrate.
func olderSchema(d *database) {
	place := d.Empty(d)
	db := d.Handle(d, place)
	d.Exec(d, db, `CREATE TABLE something (id integer)`)
	_, read := d.OpenReader(d.Context(), place)
	s := d.host(db)
	_, scheduled := s.Schedule(d.Context(), noon, single("call-1"))
	for what, err := range map[string]error{"OpenReader": read, "Verify": d.Verify(d.Context(), db), "Schedule": scheduled} {
		if err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), d.Package+".Migrate") {
			d.Errorf("%s: %v, want one that says how to migrate", what, err)
		}
	}
	d.migrated(place)
	_, err := s.Schedule(d.Context(), noon, single("call-1"))
	d.must(err)
}

// beforeTheRelease has a table of versions by its former name.
func beforeTheRelease(d *database) {
	place := d.Empty(d)
	d.Exec(d, d.Handle(d, place), `CREATE TABLE timer_schema_version (version_id bigint); INSERT INTO timer_schema_version VALUES (1)`)
	errs := d.uses(place)
	_, errs["VersionOf"] = d.VersionOf(d.Context(), place)
	for what, err := range errs {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "before release 0.1.0") {
			d.Errorf("%s: %v, want ErrFatal that says how to move", what, err)
		}
	}
}

func rowsKeepTheInvariants(d *database) {
	db := d.migrated(d.Empty(d))
	const insert = `INSERT INTO timer_schedules
		(tenant_id, service_call_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id) VALUES `
	times := strings.NewReplacer("EARLY", d.Time(noon.Add(-time.Minute)), "DUE", d.Time(noon))
	d.Exec(d, db, insert+times.Replace(`('acme', 'good', DUE, EARLY, DUE, NULL, 'Reached', 1, 'c')`))
	for row, constraint := range map[string]string{
		`('', 'x', DUE, EARLY, NULL, NULL, 'Scheduled', 1, 'c')`:      "tenant_id_has_1_to_64_characters",
		`('acme', '', DUE, EARLY, NULL, NULL, 'Scheduled', 1, 'c')`:   "service_call_id_has_1_to_128_characters",
		`('acme', 'x', DUE, EARLY, NULL, NULL, 'Scheduled', 1, '')`:   "command_id_has_1_to_128_characters",
		`('acme', 'x', DUE, EARLY, NULL, NULL, 'Scheduled', -1, 'c')`: "command_at_is_not_negative",
		`('acme', 'x', DUE, EARLY, NULL, NULL, 'Waiting', 1, 'c')`:    "state_is_known",
		`('acme', 'x', NULL, EARLY, NULL, NULL, 'Scheduled', 1, 'c')`: "only_a_tombstone_has_no_due_at",
		`('acme', 'x', DUE, EARLY, NULL, NULL, 'Reached', 1, 'c')`:    "reached_at_goes_with_a_mark",
		`('acme', 'x', DUE, EARLY, DUE, NULL, 'Scheduled', 1, 'c')`:   "reached_at_goes_with_a_mark",
		`('acme', 'x', DUE, EARLY, NULL, NULL, 'Canceled', 1, 'c')`:   "canceled_at_goes_with_canceled",
		`('acme', 'x', DUE, EARLY, NULL, DUE, 'Scheduled', 1, 'c')`:   "canceled_at_goes_with_canceled",
		`('acme', 'x', DUE, EARLY, EARLY, NULL, 'Reached', 1, 'c')`:   "never_early",
	} {
		if _, err := db.ExecContext(d.Context(), insert+times.Replace(row)); err == nil || !strings.Contains(err.Error(), constraint) {
			d.Errorf("%s: %v, want it refused by %s", row, err, constraint)
		}
	}
}

func viewForPeople(d *database) {
	db := d.migrated(d.Empty(d))
	s := d.host(db)
	c := schedule(key("acme", "call-1"), 1, noon)
	_, err := s.Schedule(d.Context(), noon.Add(7*time.Millisecond), c)
	d.must(err)
	d.must(s.Update(d.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(d.Context(), noon.Add(999*time.Millisecond), 1, nil)
		return err
	}))
	var got [4]string
	var canceled *string
	d.must(db.QueryRowContext(d.Context(), `SELECT due_at, registered_at, reached_at, command_at, canceled_at FROM timer_schedules_iso WHERE state = 'Reached'`).
		Scan(&got[0], &got[1], &got[2], &got[3], &canceled))
	want := [4]string{"2030-05-17T12:00:00.000Z", "2030-05-17T12:00:00.007Z", "2030-05-17T12:00:00.999Z", "1970-01-01T00:00:00.001Z"}
	if got != want || canceled != nil {
		d.Errorf("got %v, canceled %v, want %v, none", got, canceled, want)
	}
}

func newIsLogged(d *database) {
	place, log := d.Empty(d), new(logbuf.Buffer)
	for range 2 {
		s, err := d.Open(d.Context(), place, slog.New(slog.NewTextHandler(log, nil)))
		d.must(err)
		id, name, err := s.Identity(d.Context())
		d.must(err)
		if strings.Count(log.String(), "made a new database") != 1 || !strings.Contains(log.String(), id) {
			d.Errorf("the log says %s", log)
		}
		if !strings.HasPrefix(name, d.Package+" ") || strings.Contains(name, "@") { // as before the host in a URL
			d.Errorf("the name is %q", name)
		}
		d.must(s.Close())
	}
}

func closeWaits(d *database) {
	place := d.Empty(d)
	s, err := d.Open(d.Context(), place, nil)
	d.must(err)
	closed := make(chan error, 1)
	d.must(s.Update(d.Context(), func(tx timer.Tx) error {
		go func() { closed <- s.Close() }()
		return tx.Emit(d.Context(), event(1))
	}))
	d.must(<-closed)
	if _, err := s.Schedule(d.Context(), noon, single("call-1")); err == nil {
		d.Error("a closed store took a command")
	}
	r, err := d.OpenReader(d.Context(), place)
	d.must(err)
	if st, err := r.Stats(d.Context(), ""); err != nil || st.Outbox != 1 {
		d.Errorf("stats: %+v, %v, want 1 event", st, err)
	}
	d.must(r.Close())
}

func joinElsewhere(d *database) {
	place := d.Empty(d)
	s := d.host(d.migrated(place))
	other := d.migrated(d.Empty(d))
	for _, c := range []struct {
		name    timer.ServiceCallID
		on      *sql.DB
		refused bool
	}{{"same", d.Handle(d, place), false}, {"other", other, true}, {"empty", d.Handle(d, d.Empty(d)), true}} {
		tx, err := c.on.BeginTx(d.Context(), nil)
		d.must(err)
		_, err = s.Join(tx).Schedule(d.Context(), noon, single(c.name))
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "begin it on the") || errors.Is(err, timer.ErrFatal) {
			d.Errorf("%s: %v, want it refused: %t", c.name, err, c.refused)
		}
		_, err = tx.ExecContext(d.Context(), `CREATE TABLE goes_on (x integer)`)
		d.must(errors.Join(err, tx.Commit()))
	}
	for what, c := range map[string]struct {
		store OpenStore
		want  int64
	}{"same": {s, 1}, "other": {d.host(other), 0}} {
		if n, err := c.store.Stats(d.Context(), "acme"); n.Scheduled != c.want || err != nil {
			d.Errorf("%s: scheduled %+v, %v, want %d", what, n, err, c.want)
		}
	}
}

// CreateServiceCalls makes the table of a host that timers can refer to.
const CreateServiceCalls = `CREATE TABLE service_calls (tenant_id TEXT NOT NULL, service_call_id TEXT NOT NULL, PRIMARY KEY (tenant_id, service_call_id))`

func referenceRefused(d *database) {
	for name, c := range map[string]struct{ before, want string }{
		"no table":      {``, "there is no table service_calls"},
		"other columns": {`CREATE TABLE service_calls (id TEXT PRIMARY KEY, tenant_id TEXT)`, "there is no table service_calls with the columns"},
		"other key":     {`CREATE TABLE service_calls (id TEXT PRIMARY KEY, tenant_id TEXT, service_call_id TEXT)`, "needs the primary key"},
		"longer key":    {`CREATE TABLE service_calls (tenant_id TEXT, service_call_id TEXT, n INTEGER, PRIMARY KEY (tenant_id, service_call_id, n))`, "needs the primary key"},
		"a timer without its service call": {
			CreateServiceCalls + `; INSERT INTO timer_schedules (tenant_id, service_call_id, due_at, registered_at, state, command_at, command_id)
			VALUES ('acme', 'call-1', ` + d.Time(noon) + `, ` + d.Time(noon) + `, 'Scheduled', 1, 'c')`, "1 timers have no service call",
		},
	} {
		db := d.migrated(d.Empty(d))
		d.Exec(d, db, c.before)
		before := d.Schema(d, db)
		if err := d.ReferenceServiceCalls(d.Context(), db); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, timer.ErrFatal) {
			d.Errorf("%s: %v, want %q", name, err, c.want)
		}
		d.same(name, d.Schema(d, db), before)
	}
}
