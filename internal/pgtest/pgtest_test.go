package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestEachHasItsOwn makes the same table in two places, and finds nothing left of
// them when the test is over.
func TestEachHasItsOwn(t *testing.T) {
	t.Parallel()
	server := connect(t, pgtest.Server(t))
	for kind, place := range map[string]func(testing.TB) string{"schema": pgtest.URL, "database": pgtest.Database} {
		const exists = `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1 UNION ALL SELECT 1 FROM pg_database WHERE datname = $1)`
		var names []string
		t.Run(kind, func(t *testing.T) {
			for range 2 {
				conn := connect(t, place(t))
				var name string
				if err := conn.QueryRow(t.Context(), `SELECT CASE $1 WHEN 'schema' THEN current_schema() ELSE current_database() END`, kind).Scan(&name); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
				if _, err := conn.Exec(t.Context(), `CREATE TABLE same (id integer)`); err != nil {
					t.Error(err)
				}
				if !is(t, server, exists, name) {
					t.Errorf("%s is not there, and should be", name)
				}
			}
		})
		for _, name := range names {
			if is(t, server, exists, name) {
				t.Errorf("%s is still there", name)
			}
		}
	}
}

func is(t *testing.T, conn *pgx.Conn, query, name string) (holds bool) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, name).Scan(&holds); err != nil {
		t.Fatal(err)
	}
	return holds
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}
