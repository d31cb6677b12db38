package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	for number, want := range map[int64]string{
		140022: "the server is PostgreSQL 14.22: it must be PostgreSQL 15 or newer",
		90624:  "must be PostgreSQL 15 or newer",
		150000: "",
		180001: "",
	} {
		version := "14.22"
		err := judge(number, version, "on", "on", Strict)
		if want == "" && err != nil || want != "" && (!errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", number, err, want)
		}
	}
}

// TestServerThatLosesCommitsIsRefused sets up a database so, for new connections
// and under a store that runs.
func TestServerThatLosesCommitsIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := openAt(t, url, Options{})
	config, err := parse(url)
	must(t, err)
	run(t, s, `ALTER DATABASE `+config.Database+` SET synchronous_commit = off`)
	s.db.SetMaxIdleConns(-1) // it reconnects
	const want = "synchronous_commit = off"
	_, opened := Open(t.Context(), url, Options{})
	for what, err := range map[string]error{"Open": opened, "Watch": s.Watch(t.Context()), "Prepare": New(s.db, Options{}).Prepare(t.Context())} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrFatal and %q", what, err, want)
		}
	}
	openAt(t, url, relaxed)
	if err := judge(oldest, "15.0", "on", "off", Strict); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "fsync = off") {
		t.Errorf("fsync: %v", err)
	}
	if err := judge(oldest, "15.0", "off", "off", Relaxed); err != nil {
		t.Errorf("relaxed: %v", err)
	}
}

// TestDurabilityOfTransactions reads how a transaction will be committed.
func TestDurabilityOfTransactions(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for durability, want := range map[Durability]string{Strict: "on", Relaxed: "off"} {
		s := openAt(t, url, Options{Durability: durability})
		var got string
		err := s.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
			return tx.rows(ctx, `SELECT current_setting('synchronous_commit')`, nil, store.Scan(&got))
		})
		if err != nil || got != want {
			t.Errorf("durability %d: synchronous_commit is %s, %v, want %s", durability, got, err, want)
		}
		if err := s.db.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&got); err != nil || got != "on" {
			t.Errorf("durability %d: the session is left with synchronous_commit %s, %v", durability, got, err)
		}
	}
}

// TestNoConnectionToAStandbyIsKept takes writes away, as of a primary that became a
// standby and left its connections as they were.
func TestNoConnectionToAStandbyIsKept(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), Options{})
	s.db.SetMaxOpenConns(1)
	process := func() (pid int64) {
		must(t, readTx(t.Context(), s.db, step{text: `SELECT pg_backend_pid()::bigint`, each: store.Scan(&pid)}))
		return pid
	}
	before := process()
	err := s.writing(t.Context(), "write", func(_ context.Context, tx *transaction) error {
		tx.later(step{text: `SET TRANSACTION READ ONLY`})
		tx.later(step{text: `INSERT INTO timer_counts (tenant_id) VALUES ('acme')`})
		return nil
	})
	if codeOf(err) != readOnly || errors.Is(err, timer.ErrFatal) {
		t.Errorf("write: %v, want that it may pass", err)
	}
	if process() == before {
		t.Error("the connection is used again")
	}
}

func TestClassesOfErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"08006": nil, "57P01": nil, "57P02": nil, "57P03": nil, "57014": nil, "40001": nil, "40P01": nil, "55P03": nil,
		"53100": nil, "53200": nil, "53300": nil, "25006": nil, "28P01": nil, "3D000": nil, "58030": nil, "XX000": nil, "25P03": nil,
		"XX001": timer.ErrFatal, "XX002": timer.ErrFatal, "42P01": timer.ErrFatal, "42703": timer.ErrFatal, "3F000": timer.ErrFatal,
		"23503": timer.ErrInvalid, "23514": timer.ErrInvalid, "22021": timer.ErrInvalid,
	} {
		cause := &pgconn.PgError{Code: code, Message: "ours"}
		err := classify("schedule", refused(fmt.Errorf("wrapped: %w", cause), nil))
		for _, class := range []error{timer.ErrFatal, timer.ErrInvalid} {
			if got := errors.Is(err, class); got != (want != nil && errors.Is(want, class)) {
				t.Errorf("%s: %v is %v: %v", code, err, class, got)
			}
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v hides its cause", code, err)
		}
	}
	if err := classify("schedule", io.ErrUnexpectedEOF); errors.Is(err, timer.ErrFatal) || err.Error() != "schedule: unexpected EOF" {
		t.Errorf("a lost connection: %v", err)
	}
}

// TestNoErrorHasTheURL fails in all ways that a URL can fail.
func TestNoErrorHasTheURL(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	refuses, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := refuses.Addr().String()
	refuses.Close()
	for what, url := range map[string]string{
		"no server":            "postgres://timer:" + secret + "@" + address + "/timers",
		"no TLS there":         "postgres://timer:" + secret + "@" + address + "/timers?sslmode=verify-full&sslrootcert=/" + address,
		"a slash":              "postgres://timer:" + secret + "/x@" + address + "/timers",
		"a hash":               "postgres://timer:" + secret + "#x@" + address + "/timers",
		"a percent":            "postgres://timer:" + secret + "%zz@" + address + "/timers",
		"a space":              "postgres://timer:" + secret + " x@" + address + "/timers",
		"a colon":              "postgres://timer:" + secret + "::@" + address + ":x/timers",
		"a bad mode":           "postgres://timer:" + secret + "@" + address + "/timers?sslmode=perhaps",
		"a bad exec mode":      "postgres://timer:" + secret + "@" + address + "/timers?default_query_exec_mode=perhaps",
		"a bad timeout":        "postgres://timer@" + address + "/timers?connect_timeout=perhaps&password=" + secret,
		"keywords":             "host=127.0.0.1 port=1 password=" + secret,
		"bad keywords":         "host=127.0.0.1 port=perhaps password=" + secret,
		"other keywords":       "hunter2",
		"another scheme":       "mysql://timer:" + secret + "@" + address + "/timers",
		"a missing passphrase": "postgres://timer:" + secret + "@" + address + "/timers?sslkey=/none&sslcert=/none",
	} {
		_, opened := Open(t.Context(), url, Options{})
		_, read := OpenReader(t.Context(), url)
		for _, err := range []error{opened, read} {
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)), secret) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestNodesFitIntoAName of 63 bytes, and come back out of it.
func TestNodesFitIntoAName(t *testing.T) {
	t.Parallel()
	node := timer.Node{ID: "1a2b3c4d", PID: 12345, Version: "v1.2.3", Host: "timer-service-7d9c6b5f4-x2", Started: noon}
	for _, c := range []struct{ node, want timer.Node }{
		{node, node},
		{timer.Node{ID: "1a2b3c4d", Started: noon}, timer.Node{ID: "1a2b3c4d", Started: noon}},
		{timer.Node{ID: "1a2b3c4d", Version: "(devel)", Host: "n\u00f6rd host", Started: noon}, timer.Node{ID: "1a2b3c4d", Version: "(devel)", Host: "nrdhost", Started: noon}},
		{
			timer.Node{ID: "1a2b3c4d", PID: 4194304, Version: "v0.0.0-20261122-0123456789ab", Host: strings.Repeat("h", 64), Started: noon},
			timer.Node{ID: "1a2b3c4d", PID: 4194304, Version: "v0.0.0-20261122-", Host: "hhhhhhhhhhhhhhhh", Started: noon},
		},
	} {
		name := nodeName(c.node)
		got, ok := parseNode(name)
		if diff := cmp.Diff(c.want, got); !ok || diff != "" || len(name) > maxName {
			t.Errorf("%q of %d bytes (-want +got):\n%s", name, len(name), diff)
		}
	}
	for _, name := range []string{"", "psql", "timer a b c d e", "timer id 1 zzzz! v h", "timer-service", "timer id 1 t9x2k1 v1 h more"} {
		if got, ok := parseNode(name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

// TestALeaseGivesTheNameBack: a host's connection has its own name again afterwards.
func TestALeaseGivesTheNameBack(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), Options{Durability: Relaxed, Version: "v7"})
	names := func() (n int) {
		must(t, s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, nodeName(s.node)).Scan(&n))
		return n
	}
	lease, err := s.Own(t.Context(), outbox.Receivers{})
	must(t, err)
	if n := names(); n != 1 {
		t.Errorf("%d connections are named for the instance", n)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || !nodes[0].Self || nodes[0].Version != "v7" || time.Since(nodes[0].Seen).Abs() > time.Minute {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	lease.Release()
	if n := names(); n != 0 {
		t.Errorf("%d connections are named for the instance, which owns nothing", n)
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}

// TestAConnectionThatIsClosedMeanwhileIsAnError closes connections while they are taken, as
// database/sql does when the context of a transaction ends while a handler schedules in it.
func TestAConnectionThatIsClosedMeanwhileIsAnError(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.Server(t))
	must(t, err)
	defer db.Close()
	for range 5000 {
		conn, err := db.Conn(t.Context())
		must(t, err)
		var closing sync.WaitGroup
		closing.Go(func() { _ = conn.Close() })
		for err == nil {
			err = onDriver(t.Context(), conn, func(context.Context, *pgx.Conn) error { return nil })
		}
		if !errors.Is(err, sql.ErrConnDone) {
			t.Fatal(err)
		}
		closing.Wait()
	}
}

// TestATimerOfAHostIsExpectedForASecond has a host schedule in a transaction that is open
// while no other statement waits, and the poller search meanwhile.
func TestATimerOfAHostIsExpectedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
		f := watermark{began: time.Now()}
		f.start()
		f.expect(noon)
		for range 10 {
			time.Sleep(fullInterval / 11)
			f.start()
		}
		f.found(noon.Add(time.Minute))
		if got := f.get(); !got.Equal(noon) {
			t.Errorf("reads from %v on, want %v", got, noon)
		}
	})
}

func TestWatermarkRisesWithWhatIsFoundAndFallsWithWhatIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		f := watermark{began: time.Now()}
		want := func(what string, got, want time.Time) {
			t.Helper()
			if !got.Equal(want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		full := func(what string, want bool) {
			t.Helper()
			if got := f.start(); got != want {
				t.Errorf("%s: reads the whole index: %v, want %v", what, got, want)
			}
		}
		full("the first search", false)
		want("the first search", f.get(), time.Time{})
		f.found(at(10))
		full("the second search", false)
		f.set(at(7))
		f.set(at(9))
		f.found(at(10)) // it did not see what was committed meanwhile
		want("a claim", f.get(), at(7))
		full("the third search", false)
		f.found(at(7))
		f.set(at(20))
		want("a later timer changes nothing", f.get(), at(7))
		time.Sleep(fullInterval)
		full("a second later", true)
		full("meanwhile", false)
		f.set(at(3)) // of another instance
		f.rest(time.Millisecond)
		f.found(at(7))
		want("a claim", f.get(), at(3))
		time.Sleep(fullInterval - 2*time.Millisecond)
		full("just before another second", false)
		time.Sleep(time.Millisecond)
		full("another second later", true)
		time.Sleep(time.Second)
		f.rest(time.Second)
		time.Sleep(48 * time.Second)
		full("after a read that took a second", false)
		time.Sleep(time.Second)
		full("50 seconds after it began", true)
		f.set(time.Time{})
		want("after a long transaction", f.get(), time.Time{})
	})
}
