package crash

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// postgresEnv names a PostgreSQL server on which tests may make databases.
const postgresEnv = "TIMER_TEST_POSTGRES"

// ofPostgres adds a PostgreSQL to options: that of the environment, or a server
// of the run's own. The test is skipped if there is neither.
func ofPostgres(t *testing.T, opt Options) Options {
	t.Helper()
	opt.Store, opt.StoreURL = Postgres, os.Getenv(postgresEnv)
	if opt.StoreURL == "" {
		skipWithout(t, postgresd.Installed())
	}
	return opt
}

// skipWithout skips the test for want of a PostgreSQL, or fails it if nothing
// may be skipped.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	switch {
	case errors.Is(err, postgresd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "":
		t.Skipf("SKIPPED, NOTHING IS PROVEN: %s is not set, and %v", postgresEnv, err)
	case err != nil:
		t.Fatal(err)
	}
}

// TestDatabaseOfARun is of the run alone, can be interrupted, and leaves nothing.
func TestDatabaseOfARun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL, which takes a while: not with -short")
	}
	t.Parallel()
	t.Run("on a server that is there", func(t *testing.T) {
		t.Parallel()
		opt := ofPostgres(t, Options{})
		if opt.StoreURL == "" {
			t.Skip("SKIPPED, NOTHING IS PROVEN: " + postgresEnv + " is not set")
		}
		opt.Keep = true // of the directory, which says nothing of the database
		d := interruptAll(t, opt, (*postgresDatabase).disconnect)
		if d.left() != "" {
			t.Errorf("it says that it leaves %s", d.left())
		}
		admin := open(t, opt.StoreURL)
		var left int
		if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", d.name).Scan(&left); err != nil || left != 0 {
			t.Errorf("the database %s is still there: %v", d.name, err)
		}

		opt.KeepStore = true
		kept := interruptAll(t, opt, (*postgresDatabase).disconnect)
		if kept.left() != kept.name {
			t.Errorf("it says that it leaves %q, not %s", kept.left(), kept.name)
		}
		if _, err := admin.Exec(t.Context(), "DROP DATABASE "+kept.name); err != nil {
			t.Error(err)
		}
	})
	t.Run("on a server of its own", func(t *testing.T) {
		t.Parallel()
		skipWithout(t, postgresd.Installed())
		interruptAll(t, Options{}, (*postgresDatabase).disconnect, func(d *postgresDatabase, ctx context.Context) error {
			return d.restart(ctx, 0)
		})
	})
}

// interruptAll makes a database, interrupts it in some ways, and has it removed.
func interruptAll(t *testing.T, opt Options, interrupts ...func(*postgresDatabase, context.Context) error) *postgresDatabase {
	t.Helper()
	opened, err := openPostgres(t.Context(), opt, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*postgresDatabase)
	conn := open(t, d.url())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Error(err)
	}
	for _, interrupt := range interrupts {
		if err := interrupt(d, t.Context()); err != nil {
			t.Error(err)
		}
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a connection outlives the interruption")
		}
		conn = open(t, d.url())
		if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
			t.Error(err)
		}
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if err := conn.Ping(t.Context()); err == nil && d.left() == "" {
		t.Error("a connection outlives the database")
	}
	if err := conn.Close(t.Context()); err != nil && d.left() != "" {
		t.Error(err)
	}
	return d
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// A harness with several instances finds their violations, too.
func TestConvictsInstancesThatForget(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := script(t, "export "+forgetfulEnv+"=yes; exec "+strconv.Quote(self)+` "$@"`)
	r, err := logRun(t, ofPostgres(t, Options{Bin: bin, Instances: 3, Kills: 6, Seed: 1, Settle: 8 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	if r.Count(history.Lost) == 0 || r.Count(history.NoDeadLetter) == 0 {
		t.Errorf("%d lost, %d without a dead letter: no violation was found", r.Count(history.Lost), r.Count(history.NoDeadLetter))
	}
	if r.Fired == 0 || r.Lives != 3+6 || r.Kills != 6 || r.Instances != 3 {
		t.Errorf("%d timers fired in %d lives of %d instances with %d kills", r.Fired, r.Lives, r.Instances, r.Kills)
	}
	if n := r.Takeover.Next.Count + r.Takeover.Alone; n != 6 || r.Takeover.Next.Count == 0 {
		t.Errorf("%d takeovers and %d faults at the last one, of 6", r.Takeover.Next.Count, r.Takeover.Alone)
	}
	if r.Count(history.Died) > 0 {
		t.Errorf("%d died by themselves", r.Count(history.Died))
	}
}
