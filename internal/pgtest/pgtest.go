// Package pgtest gives each test a place of its own on the PostgreSQL server that
// TIMER_TEST_POSTGRES names.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the URL of a role that may create databases.
const Variable = "TIMER_TEST_POSTGRES"

// limit is how long it may take to create a database or a schema, or to drop it.
const limit = time.Minute

// URL returns the URL of an empty schema, which is dropped when the test ends. It
// is the schema of all tables without one, which is how it is told apart from
// others in the same database: settings of a database are not its own. Without a
// server it skips the test, loudly, or fails it if TIMER_TEST_REQUIRE is set.
func URL(t testing.TB) string {
	t.Helper()
	server, name := Server(t), unique()
	run(t, server, `CREATE SCHEMA `+name)
	t.Cleanup(func() { run(t, server, `DROP SCHEMA `+name+` CASCADE`) })
	return with(t, server, func(u *url.URL) {
		q := u.Query()
		q.Set("search_path", name)
		u.RawQuery = q.Encode()
	})
}

// Database is URL, but of a database. That takes ten times as long; a caller that still
// uses it when the test ends is thrown out.
func Database(t testing.TB) string {
	t.Helper()
	server, name := Server(t), unique()
	run(t, server, `CREATE DATABASE `+name)
	t.Cleanup(func() { run(t, server, `DROP DATABASE `+name+` WITH (FORCE)`) })
	return with(t, server, func(u *url.URL) { u.Path = "/" + name })
}

func unique() string { return "timer_test_" + strings.ToLower(rand.Text()[:12]) }

// with returns the URL of the server with a change.
func with(t testing.TB, server string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(Variable + " is not a URL")
	}
	change(u)
	return u.String()
}

// Server returns the URL of the server, as URL finds it.
func Server(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal(Variable + " is not set")
	}
	if server == "" {
		t.Skipf("SKIPPED: set %s to the URL of a role that may create databases, such as postgres://postgres@127.0.0.1:5432/postgres, to test against PostgreSQL", Variable)
	}
	return server
}

func run(t testing.TB, server, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit) // the test's ends before its clean-up
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, text); err != nil {
		t.Error(err)
	}
}
