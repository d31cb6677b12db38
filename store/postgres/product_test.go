package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// TestOnlyPostgreSQLIsTaken has servers call themselves as others do, by a function in front of
// the server's own. Nothing is migrated on one that is refused.
func TestOnlyPostgreSQLIsTaken(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{
		"PostgreSQL 18.4 on x86_64-pc-linux-gnu, compiled by gcc":                                                         false,
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12, 64-bit": false,
		"PostgreSQL 19beta1 on aarch64-unknown-linux-gnu":                                                                 false,
		"PostgreSQL 16.1 (EnterpriseDB Advanced Server 16.1.0) on x86_64":                                                 false,
		"CockroachDB CCL v25.1.2 (x86_64-pc-linux-gnu, built 2025/03/19, go1.22.8)":                                       true,
		"PostgreSQL 15.12-YB-2.25.2.0-b0 on x86_64-pc-linux-gnu, compiled by clang":                                       true,
		"PostgreSQL 9.5 Materialize":                                                                                      false,
		"CrateDB 5.10.3":                                                                                                  true,
	} {
		place := shadowed(t, `CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$ SELECT '`+name+`' $$`)
		s, opened := Open(t.Context(), place, Options{Durability: Relaxed})
		db, err := connect(place, 2)
		must(t, err)
		defer db.Close()
		migrated := Migrate(t.Context(), db)
		if !refused {
			must(t, errors.Join(opened, migrated, s.Close()))
			continue
		}
		for what, err := range map[string]error{"Open": opened, "Migrate": migrated} {
			if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "the server is not PostgreSQL: it calls itself \""+name) {
				t.Errorf("%s: %v, want ErrFatal and the name", what, err)
			}
		}
		var tables int
		must(t, readTx(t.Context(), db, step{text: `SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`, each: store.Scan(&tables)}))
		if tables > 0 {
			t.Errorf("%s: %d tables were made", name, tables)
		}
	}
}

// TestNeonKeepsCommits reads settings as servers of Neon have them, and such as only look so.
func TestNeonKeepsCommits(t *testing.T) {
	t.Parallel()
	for settings, fsync := range map[string]string{
		`neon.safekeepers=sk-1:5454,sk-2:5454|sighup synchronous_standby_names=walproposer|sighup synchronous_commit=on|user`:     "on",
		`neon.safekeepers=sk-1:5454|postmaster synchronous_standby_names=walproposer|sighup synchronous_commit=remote_apply|user`: "on",
		`neon.safekeepers=|sighup synchronous_standby_names=walproposer|sighup synchronous_commit=on|user`:                        "off",
		`neon.safekeepers=sk-1:5454|sighup synchronous_standby_names=|sighup synchronous_commit=on|user`:                          "off",
		`neon.safekeepers=sk-1:5454|sighup synchronous_standby_names=walproposer|sighup synchronous_commit=local|user`:            "off",
		`neon.safekeepers=of-a-user|user synchronous_standby_names=walproposer|sighup synchronous_commit=on|user`:                 "off",
		`synchronous_standby_names=walproposer|sighup synchronous_commit=on|user`:                                                 "off",
	} {
		rows := []string{`('fsync', 'off', 'sighup', 'default')`}
		for _, setting := range strings.Fields(settings) {
			name, rest, _ := strings.Cut(setting, "=")
			value, kind, _ := strings.Cut(rest, "|")
			rows = append(rows, `('`+name+`', '`+value+`', '`+kind+`', 'configuration file')`)
		}
		place := shadowed(t, `CREATE VIEW pg_settings (name, setting, context, source) AS VALUES `+strings.Join(rows, ", "))
		db, err := connect(place, 1)
		must(t, err)
		defer db.Close()
		var now serverState
		must(t, readTx(t.Context(), db, step{text: sqlServer, each: store.Scan(now.server()...)}))
		if now.fsync != fsync || now.number < oldest {
			t.Errorf("%s: fsync is %q, want %q", settings, now.fsync, fsync)
		}
	}
}

// shadowed returns the URL of a schema with an object that stands in front of the server's own.
func shadowed(t *testing.T, statement string) string {
	t.Helper()
	place, err := url.Parse(pgtest.URL(t))
	must(t, err)
	q := place.Query()
	q.Set("search_path", q.Get("search_path")+",pg_catalog")
	place.RawQuery = q.Encode()
	db, err := connect(place.String(), 1)
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	must(t, err)
	return place.String()
}
