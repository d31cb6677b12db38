package service_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// States of checks.
const (
	fine    = "fine"
	warning = "warning" // there is something to do
	red     = "red"
)

// finds fails the test unless a check of the part has the state, and the words in its
// reason and its advice.
func finds(t *testing.T, all []app.Check, state, part string, words ...string) {
	t.Helper()
	for _, c := range all {
		said := true
		for _, word := range words {
			said = said && strings.Contains(c.Reason+" -> "+c.Advice, word)
		}
		is := map[bool]string{true: warning, false: fine}[c.Advice != ""]
		if c.Red {
			is = red
		}
		if is == state && c.Part == part && said {
			if c.Red && c.Advice == "" {
				t.Errorf("%s says not what to do: %s", part, c.Reason)
			}
			return
		}
	}
	t.Errorf("nothing is %s of %s with %q:", state, part, words)
	for _, c := range all {
		t.Logf("%+v", c)
	}
}

func examine(t *testing.T, cfg config.Config) []app.Check {
	t.Helper()
	all := service.Examine(t.Context(), cfg)
	for _, f := range all {
		if strings.Contains(f.Reason+f.Advice, "hunter2") { // the password of all tests
			t.Errorf("a check shows a password: %+v", f)
		}
	}
	return all
}

func migrated(t *testing.T, cfg config.Config) {
	t.Helper()
	if _, _, err := service.Migrate(t.Context(), cfg, false); err != nil {
		t.Fatal(err)
	}
}

func execSQLite(t *testing.T, cfg config.Config, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", cfg.DBPath)
	must(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	must(t, errors.Join(err, db.Close()))
}

// TestExamineFiles has mistakes with files.
func TestExamineFiles(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T, text string, mode os.FileMode) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "file")
		must(t, errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)))
		return name
	}
	embeddedSecret := func(cfg *config.Config) string { return strings.TrimSuffix(cfg.DBPath, ".db") + ".nats/secret" }
	settings := func(t *testing.T, cfg *config.Config, text string, mode os.FileMode) {
		t.Helper()
		var err error
		*cfg, err = config.Load(nil, nil, file(t, text, mode))
		must(t, err)
	}
	for name, test := range map[string]struct {
		harm  func(t *testing.T, cfg *config.Config)
		check string
		state string
		says  []string
	}{
		"nothing":                         {func(*testing.T, *config.Config) {}, "database", fine, []string{"takes writes"}},
		"a database that others may read": {func(t *testing.T, cfg *config.Config) { must(t, os.Chmod(cfg.DBPath, 0o644)) }, "files", red, []string{"0644", "chmod 0600"}},
		"a secret that others may read": {func(t *testing.T, cfg *config.Config) {
			must(t, errors.Join(os.Mkdir(filepath.Dir(embeddedSecret(cfg)), 0o700), os.WriteFile(embeddedSecret(cfg), nil, 0o640)))
		}, "files", red, []string{"0640", "embedded server"}},
		"a key that is absent": {func(_ *testing.T, cfg *config.Config) { cfg.NATSNKey = "/nowhere/key" }, "files", red, []string{"/nowhere/key"}},
		"settings with a password that others may read": {func(t *testing.T, cfg *config.Config) {
			settings(t, cfg, "http_token: hunter2\n", 0o644)
		}, "files", red, []string{"0644", "passwords"}},
		"settings that the group of the service may read": {func(t *testing.T, cfg *config.Config) {
			settings(t, cfg, "http_token: hunter2\nbroker: gochannel\n", 0o640)
		}, "files", fine, []string{"only this service"}},
		"settings that the group of the service may write to": {func(t *testing.T, cfg *config.Config) {
			settings(t, cfg, "http_token: hunter2\n", 0o660)
		}, "files", red, []string{"0660", "group ", "chown ", "chmod 0640"}},
		"a folder that is absent": {func(_ *testing.T, cfg *config.Config) { cfg.DBPath = "/nowhere/data/timers.db" }, "disk", red, []string{"there is no folder /nowhere/data"}},
		"a folder that the service makes": {func(t *testing.T, cfg *config.Config) {
			cfg.DBPath = filepath.Join(t.TempDir(), "data", "timers.db")
		}, "disk", fine, []string{"data: the service makes it when it starts"}},
		"a folder that all may write to": {func(t *testing.T, cfg *config.Config) {
			must(t, os.Chmod(filepath.Dir(cfg.DBPath), 0o777))
		}, "disk", red, []string{"all users may replace files", filepath.Join("timer-service", "timers.db"), "would not start"}},
		"a file that is no database": {func(t *testing.T, cfg *config.Config) {
			cfg.DBPath = file(t, strings.Repeat("no database ", 1000), 0o600)
		}, "database", red, []string{"not a database"}},
		"a destination that takes no events": {func(t *testing.T, cfg *config.Config) {
			execSQLite(t, *cfg, `INSERT INTO timer_outbox_deferred (seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at) VALUES (1, 'a', x'', '{}', 0, 3, 'permission denied', 'svc.acme.serviceCall', 0)`)
		}, "forwarder", warning, []string{"svc.acme.serviceCall takes no events: 1 waits", "1970-01-01", "permission denied"}},
		"a newer schema": {func(t *testing.T, cfg *config.Config) {
			execSQLite(t, *cfg, `INSERT INTO timer_schema (version_id, is_applied) VALUES (99, 1)`)
		}, "schema", red, []string{"99", "newer"}},
		"a damaged file": {func(t *testing.T, cfg *config.Config) {
			execSQLite(t, *cfg, `PRAGMA ignore_check_constraints = on; INSERT INTO timer_schedules (tenant_id, service_call_id, registered_at, state, command_at, command_id) VALUES ('a', 'b', 0, 'none', 0, 'c')`)
		}, "database", red, []string{"restore a backup, or move the file"}},
		"a token in clear": {func(_ *testing.T, cfg *config.Config) { cfg.HTTPAddr = "0.0.0.0:0" }, "settings", warning, []string{"in clear", "http_tls_cert", "http_trusted_proxies"}},
		"a key of HTTP that others may read": {func(t *testing.T, cfg *config.Config) {
			cfg.HTTPTLSCert, cfg.HTTPTLSKey = file(t, "", 0o644), file(t, "", 0o644)
		}, "files", red, []string{"0644", "http_tls_key"}},
		"relaxed durability": {func(_ *testing.T, cfg *config.Config) { cfg.Durability = config.Relaxed }, "settings", warning, []string{"loss of power"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t)
			migrated(t, cfg)
			test.harm(t, &cfg)
			finds(t, examine(t, cfg), test.state, test.check, test.says...)
		})
	}
}

// TestExamineChangesNothing compares the folder before and after.
func TestExamineChangesNothing(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	content := func() (all string) {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.DBPath), "*"))
		must(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			must(t, err)
			all += fmt.Sprintf("%s %x\n", name, text)
		}
		return all
	}
	examine(t, cfg)
	if content() != "" {
		t.Error("before there was a database it made files")
	}
	migrated(t, cfg)
	before := content()
	examine(t, cfg)
	if content() != before {
		t.Error("the files have changed")
	}
}

// TestExamineWhileAServiceRuns checks one that is well, and then one that holds the write lock.
func TestExamineWhileAServiceRuns(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	r := run(t, cfg)
	r.line("ready")
	all := examine(t, cfg)
	for check, words := range map[string][]string{
		"lock": {"a service runs", fmt.Sprint("pid ", os.Getpid())}, "database": {"takes writes"}, "broker": {"NATS 2.", "embedded server at nats://"}, "stream": {""},
		"limits": {"retention limits", "storage file", "discard new", "duplicate window 2m", "kept for 3d"}, "owner": {"this database"}, "clock": {"agrees"}, "backup": {"still has"},
	} {
		finds(t, all, fine, check, words...)
	}
	db, err := sql.Open("sqlite", "file:"+cfg.DBPath+"?_txlock=immediate")
	must(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	finds(t, examine(t, cfg), red, "database", "lock", "lsof")
}

// elsewhere returns the configuration of a service at a server with a stream, and what
// changes that.
func elsewhere(t *testing.T) (config.Config, jetstream.JetStream) {
	t.Helper()
	url := natsServer(t)
	conn, err := natsgo.Connect(url, natsgo.Timeout(time.Minute))
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	must(t, err)
	return load(t, "TIMER_BROKER_URL="+url), js
}

// TestExamineTheBroker has mistakes with one.
func TestExamineTheBroker(t *testing.T) {
	t.Parallel()
	t.Run("it is away", func(t *testing.T) {
		t.Parallel()
		finds(t, examine(t, load(t, "TIMER_BROKER_URL=nats://hunter2@127.0.0.1:1")), red, "broker", "127.0.0.1:1", "start the broker")
	})
	t.Run("its stream may lose messages", func(t *testing.T) {
		t.Parallel()
		cfg, js := elsewhere(t)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardOld, MaxBytes: 1 << 20, Duplicates: 2 * time.Minute,
		}); err != nil {
			t.Fatal(err)
		}
		all := examine(t, cfg)
		finds(t, all, red, "stream", "discard is old", "set it to: new")
		finds(t, all, warning, "limits", "longer than retention")
	})
	t.Run("nothing is provisioned, and must be", func(t *testing.T) {
		t.Parallel()
		cfg, _ := elsewhere(t)
		finds(t, examine(t, cfg), fine, "stream", "stream svc is made when the service starts")
		cfg.Provision = config.Verify
		finds(t, examine(t, cfg), red, "stream", "stream svc is missing", "timer-service provision")
	})
	t.Run("it is full", func(t *testing.T) {
		t.Parallel()
		cfg, js := elsewhere(t)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardNew, MaxBytes: 64 << 10, Duplicates: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if _, err := js.Publish(t.Context(), "svc.acme.serviceCall", make([]byte, 10<<10)); err != nil {
				t.Fatal(err)
			}
		}
		finds(t, examine(t, cfg), red, "limits", "max_bytes")
	})
	t.Run("its commands belong to another database", func(t *testing.T) {
		t.Parallel()
		cfg, js := elsewhere(t)
		r := run(t, cfg)
		r.line("ready")
		other := load(t, "TIMER_BROKER_URL="+cfg.BrokerURL.Reveal())
		finds(t, examine(t, other), warning, "owner", cfg.DBPath, "--takeover")
		migrated(t, other)
		finds(t, examine(t, other), warning, "owner", cfg.DBPath, "takes them over and recovers")
		s, err := sqlite.Open(t.Context(), other.DBPath, sqlite.Options{})
		must(t, err)
		c := timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "x"}, Version: timer.Version{TimestampMS: 1, CommandID: "x"}, DueAt: time.Now().Add(time.Hour)}
		if _, err := s.Schedule(t.Context(), time.Now(), c); err != nil || s.Close() != nil {
			t.Fatal(err)
		}
		finds(t, examine(t, other), red, "owner", cfg.DBPath, other.DBPath, "--takeover")

		schedule := func(call string, at int64) {
			body := fmt.Sprintf(`{"id":%q,"type":"ScheduleTimer","tenantId":"acme","timestampMs":%d,"payload":{"tenantId":"acme","serviceCallId":%q,"dueAt":"2030-01-01T00:00:00Z"}}`, call, at, call)
			if _, err := js.Publish(t.Context(), "timer.commands", []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		schedule("a", time.Now().Add(-time.Hour).UnixMilli())
		until(t, "a timer", func() bool { return waiting(t, cfg) == 1 })
		stream, err := js.Stream(t.Context(), "svc")
		if err == nil {
			err = stream.Purge(t.Context())
		}
		must(t, err)
		schedule("b", time.Now().UnixMilli())
		until(t, "another timer", func() bool { return waiting(t, cfg) == 2 })
		finds(t, examine(t, cfg), warning, "backup", "only a backup", ": 1;", "timer-service backup")
	})
	t.Run("its commands belong to another database than this, which is of PostgreSQL and empty", func(t *testing.T) {
		t.Parallel()
		cfg, _ := elsewhere(t)
		run(t, cfg).line("ready")
		other := load(t, "TIMER_BROKER_URL="+cfg.BrokerURL.Reveal(), "TIMER_DB_URL="+pgtest.URL(t))
		finds(t, examine(t, other), warning, "owner", cfg.DBPath, "takes them over and recovers")
		migrated(t, other)
		finds(t, examine(t, other), warning, "owner", cfg.DBPath, "takes them over and recovers")
	})
	for name, site := range map[string]func(*testing.T) site{"RabbitMQ": rabbitSite, "Kafka": kafkaSite} {
		t.Run("it is "+name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, site(t).environ...)
			run(t, cfg).line("ready")
			all := examine(t, cfg)
			finds(t, all, fine, "broker", name+" ", "answers")
			finds(t, all, fine, "owner", "this database")
			finds(t, all, fine, "backup")
		})
	}
	t.Run("its port is taken", func(t *testing.T) {
		t.Parallel()
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		cfg := load(t, "TIMER_NATS_PORT="+port)
		finds(t, examine(t, cfg), red, "broker", "is taken by another server")
		if err := service.Run(t.Context(), cfg, io.Discard, quiet); err == nil || !strings.Contains(err.Error(), "is taken by another server") {
			t.Errorf("serve: %v", err)
		}
	})
	t.Run("it is in the process", func(t *testing.T) {
		t.Parallel()
		all := examine(t, load(t, "TIMER_BROKER=gochannel"))
		finds(t, all, fine, "broker", "inside the service")
		finds(t, all, warning, "settings", "gochannel")
	})
}

func waiting(t *testing.T, cfg config.Config) int64 {
	t.Helper()
	r, err := service.Reader(t.Context(), cfg)
	must(t, err)
	defer r.Close()
	st, err := r.Stats(t.Context(), "")
	must(t, err)
	return st.Scheduled
}

// TestExamineHTTP has the address taken by another program.
func TestExamineHTTP(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	cfg := load(t, "TIMER_HTTP_ADDR="+l.Addr().String())
	finds(t, examine(t, cfg), red, "http", "another program", l.Addr().String())
	must(t, l.Close())
	finds(t, examine(t, cfg), fine, "http", "is free")
	finds(t, examine(t, load(t, "TIMER_HTTP_ADDR=")), fine, "http", "no HTTP")
}

// TestExaminePostgres checks a database as a role that may not use the tables, and as
// one that may.
func TestExaminePostgres(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	cfg := load(t, "TIMER_DB_URL="+place, "TIMER_BROKER=gochannel")
	finds(t, examine(t, cfg), fine, "schema", "has none yet")
	admin, err := postgres.Connect(place)
	must(t, err)
	defer admin.Close()
	role := fmt.Sprint("doctor_", time.Now().UnixNano())
	for _, statement := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'x'`,
		`DO $$ BEGIN EXECUTE 'GRANT USAGE ON SCHEMA ' || quote_ident(current_schema()) || ' TO ` + role + `'; END $$`,
	} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	scheme, rest, _ := strings.Cut(place, "://")
	if _, host, found := strings.Cut(rest, "@"); found {
		rest = host
	}
	theirs := load(t, "TIMER_DB_URL="+scheme+"://"+role+":x@"+rest, "TIMER_BROKER=gochannel")
	finds(t, examine(t, theirs), red, "database", "may not make tables", "timer-service migrate")
	finds(t, examine(t, load(t, "TIMER_DB_URL="+place+"&search_path=nowhere", "TIMER_BROKER=gochannel")), red, "database", "no schema of the role's search_path exists")
	if _, _, err := service.Migrate(t.Context(), theirs, false); err == nil || !strings.Contains(err.Error(), "may not make tables") {
		t.Errorf("a role that may not migrate does: %v", err)
	}
	migrated(t, cfg)
	all := examine(t, cfg)
	for check, word := range map[string]string{"schema": "that of this binary", "permissions": "all tables", "database": "takes writes", "clock": "the database"} {
		finds(t, all, fine, check, word)
	}
	if _, err := admin.ExecContext(t.Context(), `DO $$ BEGIN EXECUTE 'GRANT SELECT ON ALL TABLES IN SCHEMA ' || quote_ident(current_schema()) || ' TO `+role+`'; END $$`); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := admin.Exec(`DROP OWNED BY ` + role + `; DROP ROLE ` + role); err != nil {
			t.Error(err)
		}
	}()
	finds(t, examine(t, theirs), red, "permissions", "timer_schedules", "GRANT")
	for _, test := range []struct{ statement, says string }{
		{`ALTER TABLE timer_outbox SET UNLOGGED`, "tables that are UNLOGGED: timer_outbox: ALTER each TABLE … SET LOGGED"},
		{
			`ALTER TABLE timer_outbox SET LOGGED; ALTER TABLE timer_schedules ENABLE ROW LEVEL SECURITY`,
			"row-level security hides rows from the role: timer_schedules: disable it",
		},
	} {
		if _, err := admin.ExecContext(t.Context(), test.statement); err != nil {
			t.Fatal(err)
		}
		finds(t, examine(t, theirs), red, "database", test.says)
	}
	finds(t, examine(t, load(t, "TIMER_DB_URL=postgres://u:hunter2@127.0.0.1:1/timers", "TIMER_BROKER=gochannel")), red, "database", "127.0.0.1:1", "db_url")
	finds(t, examine(t, load(t, "TIMER_DB_URL=postgres://u:hunter2@db.invalid/timers", "TIMER_BROKER=gochannel")), red, "database", "sslmode=verify-full", "db_url")
}

// TestExamineNeverHangs has servers that say nothing.
func TestExamineNeverHangs(t *testing.T) {
	t.Parallel()
	longtest.Skip(t, "waits for deadlines")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	all := examine(t, load(t, "TIMER_DB_URL=postgres://u:hunter2@"+l.Addr().String()+"/timers", "TIMER_BROKER_URL=nats://u:hunter2@"+l.Addr().String(), "TIMER_HTTP_ADDR="+l.Addr().String()))
	for _, check := range []string{"database", "broker", "http"} {
		finds(t, all, red, check)
	}
}
