package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/pgtest"
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
	s, err := Open(t.Context(), url, Options{})
	must(t, err)
	defer s.Close()
	config, err := parse(url)
	must(t, err)
	if _, err := s.db.ExecContext(t.Context(), `ALTER DATABASE `+config.Database+` SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	s.db.SetMaxIdleConns(-1) // it reconnects
	const want = "synchronous_commit = off"
	_, opened := Open(t.Context(), url, Options{})
	for what, err := range map[string]error{"Open": opened, "Watch": s.Watch(t.Context()), "Prepare": New(s.db, Options{}).Prepare(t.Context())} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrFatal and %q", what, err, want)
		}
	}
	loose, err := Open(t.Context(), url, Options{Durability: Relaxed})
	must(t, err)
	loose.Close()
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
		s, err := Open(t.Context(), url, Options{Durability: durability})
		must(t, err)
		defer s.Close()
		var got string
		err = s.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
			return tx.rows(ctx, `SELECT current_setting('synchronous_commit')`, nil, scan(&got))
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
	s, err := Open(t.Context(), pgtest.URL(t), Options{})
	must(t, err)
	defer s.Close()
	s.db.SetMaxOpenConns(1)
	process := func() (pid int64) {
		must(t, readTx(t.Context(), s.db, step{text: `SELECT pg_backend_pid()::bigint`, each: scan(&pid)}))
		return pid
	}
	before := process()
	err = s.writing(t.Context(), "write", func(_ context.Context, tx *transaction) error {
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

// TestStatementsArePreparedWhereTheURLSaysSo reads what a session has prepared.
func TestStatementsArePreparedWhereTheURLSaysSo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for mode, prepared := range map[string]bool{
		"": false, "&default_query_exec_mode=exec": false, "&default_query_exec_mode=cache_statement": true,
	} {
		s, err := Open(t.Context(), url+mode, Options{Durability: Relaxed})
		must(t, err)
		defer s.Close()
		s.db.SetMaxOpenConns(1)
		if _, err := s.NextDue(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		n := many(t, s, `SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '-- The earliest due time after%'`)
		if got := n == 1; got != prepared {
			t.Errorf("%q: prepared %v, want %v", mode, got, prepared)
		}
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
