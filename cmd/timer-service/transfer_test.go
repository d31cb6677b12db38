package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// records returns the lines of an export without its header.
func records(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	return rest
}

func beside(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	first := beside(t, "timers.jsonl")
	got := do(t, nil, "export", first, "--db-path", populated(t)).wants(t, exitOK)
	for _, want := range []string{"exported 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled), to " + first + ": ", " MB in ", " timers/s\nsha256 "} {
		if !strings.Contains(got.stdout, want) || got.stderr != "" {
			t.Errorf("export prints %q and %q, want %q", got.stdout, got.stderr, want)
		}
	}
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want it for its owner only", info, err)
	}
	if n := strings.Count(records(t, first), "\n"); n != 6 {
		t.Errorf("%d lines behind the header, want 5 timers and a trailer", n)
	}

	copied := beside(t, "new.db")
	imported := do(t, nil, "import", first, "--db-path", copied).wants(t, exitOK).stdout
	for _, want := range []string{"imported 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled), from " + first, "\nread back and verified: sha256 "} {
		if !strings.Contains(imported, want) {
			t.Errorf("import prints %q, want %q", imported, want)
		}
	}
	if last := func(s string) string { return s[len(s)-65:] }; last(got.stdout) != last(imported) {
		t.Errorf("checksums differ:\n%s%s", got.stdout, imported)
	}
	second := beside(t, "again.jsonl")
	var fields map[string]any
	if err := json.Unmarshal([]byte(do(t, nil, "export", second, "--db-path", copied, "-o", "json").wants(t, exitOK).stdout), &fields); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"result": "exported", "file": second, "scheduled": 2.0, "reached": 1.0, "expired": 0.0, "canceled": 2.0}
	if info, err = os.Stat(second); err != nil {
		t.Fatal(err)
	}
	want["bytes"], want["seconds"], want["sha256"] = float64(info.Size()), fields["seconds"], fields["sha256"]
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("export prints (-want +got):\n%s", diff)
	}
	if records(t, first) != records(t, second) {
		t.Errorf("exported\n%s\nand after an import\n%s", records(t, first), records(t, second))
	}
	for _, args := range [][]string{{"list", "acme"}, {"stats"}, {"stats", "--tenants"}} {
		if do(t, nil, append(args, "--db-path", copied)...).wants(t, exitOK).stdout == "" {
			t.Errorf("%v prints nothing", args)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(first), "*")); len(files) != 1 {
		t.Errorf("the folder of the export has %v", files)
	}
}

func TestExportAndImportThroughAPipe(t *testing.T) {
	t.Parallel()
	from := populated(t)
	file := beside(t, "timers.jsonl")
	do(t, nil, "export", file, "--db-path", from).wants(t, exitOK)
	out := do(t, nil, "export", "-", "--db-path", from).wants(t, exitOK)
	_, rest, _ := strings.Cut(out.stdout, "\n")
	if rest != records(t, file) || !strings.Contains(out.stderr, "exported 5 timers") {
		t.Errorf("stdout has\n%s\nstderr %s", out.stdout, out.stderr)
	}
	tmp := t.TempDir()
	p := prepare(t, []string{"TMPDIR=" + tmp}, "main", "import", "-", "--db-path", beside(t, "new.db"))
	p.Stdin = strings.NewReader(out.stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.prints(t, "imported 5 timers")
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	if files, _ := filepath.Glob(filepath.Join(tmp, "*")); len(files) > 0 {
		t.Errorf("the folder for temporary files has %v", files)
	}
}

// An error in an export names its line, and nothing is imported.
func TestImportOfAChangedFileImportsNothing(t *testing.T) {
	t.Parallel()
	file := beside(t, "timers.jsonl")
	do(t, nil, "export", file, "--db-path", populated(t)).wants(t, exitOK)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	for want, spoiled := range map[string]string{
		"line 7: the checksum is ":                            strings.Replace(whole, "command-2", "command-9", 1),
		"line 7: the file ends here, without a trailer":       whole[:strings.LastIndex(whole, `{"kind":"trailer"`)],
		`line 3: the field "odd" is not known`:                strings.Replace(whole, `"serviceCallId":"b-1"`, `"odd":1,"serviceCallId":"b-1"`, 1),
		"line 1: the export has version 2, this binary knows": strings.Replace(whole, `"version":1`, `"version":2`, 1),
	} {
		if err := os.WriteFile(file, []byte(spoiled), 0o600); err != nil {
			t.Fatal(err)
		}
		to := beside(t, "new.db")
		if got := do(t, nil, "import", file, "--db-path", to).wants(t, exitFailure); !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("prints %q and %q, want %q", got.stdout, got.stderr, want)
		}
		if got := do(t, nil, "stats", "--db-path", to).wants(t, exitOK).stdout; !strings.Contains(got, "scheduled      0\n") {
			t.Errorf("%s: kept %s", want, got)
		}
	}
	used := populated(t)
	if got := do(t, nil, "import", file, "--db-path", used).wants(t, exitFailure).stderr; !strings.Contains(got, used) && !strings.Contains(got, "line 1") {
		t.Errorf("into a database that is in use: %s", got)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do(t, nil, "import", file, "--db-path", used).wants(t, exitFailure).stderr; !strings.Contains(got, "sqlite "+used+" holds timers or events already: import into a new database") {
		t.Errorf("into a database that is in use: %s", got)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	from := populated(t)
	copied := beside(t, "copy.db")
	got := do(t, nil, "backup", copied, "--db-path", from).wants(t, exitOK)
	for _, want := range []string{"backed up 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled), 0 events, 0 parked, schema ", ", to " + copied + ": ", " MB in "} {
		if !strings.Contains(got.stdout, want) || got.stderr != "" {
			t.Errorf("prints %q and %q, want %q", got.stdout, got.stderr, want)
		}
	}
	info, err := os.Stat(copied)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy is %v, %v, want it for its owner only", info, err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(copied), "*")); len(files) != 1 {
		t.Errorf("the folder of the copy has %v", files)
	}
	want := do(t, nil, "list", "acme", "--db-path", from).wants(t, exitOK).stdout
	if diff := cmp.Diff(want, do(t, nil, "list", "acme", "--db-path", copied).wants(t, exitOK).stdout); diff != "" {
		t.Errorf("the copy has (-want +got):\n%s", diff)
	}
	other := beside(t, "other.db")
	var fields map[string]any
	if err := json.Unmarshal([]byte(do(t, nil, "backup", other, "--db-path", from, "-o", "json").wants(t, exitOK).stdout), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"result": "backed up", "file": other, "bytes": float64(info.Size()), "scheduled": 2.0, "reached": 1.0, "expired": 0.0, "canceled": 2.0, "outbox": 0.0, "parked": 0.0} {
		if fields[name] != want {
			t.Errorf("%s is %v, want %v", name, fields[name], want)
		}
	}
	absent := do(t, nil, "backup", beside(t, "x"), "--db-path", beside(t, "absent.db")).wants(t, exitFailure)
	if !strings.Contains(absent.stderr, "absent.db: has the service run here?") {
		t.Errorf("of nothing: %s", absent.stderr)
	}
}

// An existing file is never overwritten, and a failure leaves no file.
func TestFilesAreCompleteOrAbsent(t *testing.T) {
	t.Parallel()
	from := populated(t)
	for _, verb := range []string{"backup", "export"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		there := func(name string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		gone := func(name string) {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "precious" {
				t.Errorf("%s: %s has %q, %v", verb, name, text, err)
			}
			os.Remove(filepath.Join(dir, name))
		}
		refuses := func(want string, args ...string) {
			t.Helper()
			got := do(t, nil, append([]string{verb, "--db-path", from}, args...)...).wants(t, exitUsage)
			if !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, verb+" --help") || got.stdout != "" {
				t.Errorf("%s prints %q and %q, want %q", verb, got.stdout, got.stderr, want)
			}
		}
		there("file")
		refuses(path+" exists: name a file that does not", path)
		gone("file")
		there("file.partial")
		refuses("file.partial exists: it is being written, or a "+verb+" was killed; then delete it", path)
		gone("file.partial")
		refuses("there is no folder "+filepath.Join(dir, "absent"), filepath.Join(dir, "absent", "file"))
		refuses("exists", dir)
		refuses("db_url is set and wins", path, "--db-url", "postgres://user@localhost/timers")
		do(t, nil, verb, path, "--db-path", filepath.Join(dir, "absent.db")).wants(t, exitFailure)
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
			t.Errorf("%s left %v", verb, files)
		}
	}
	do(t, nil, "import", "/nowhere/timers.jsonl").wants(t, exitUsage)
	do(t, nil, "import", "-", "--db-path", "x.db", "--db-url", "postgres://user@localhost/timers").wants(t, exitUsage)
	got := do(t, []string{"TIMER_DB_URL=postgres://user:hunter2@localhost/timers"}, "backup", beside(t, "x")).wants(t, exitUsage)
	for _, want := range []string{"pg_dump", "point-in-time recovery"} {
		if !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "hunter2") {
			t.Errorf("a backup of PostgreSQL: %s", got.stderr)
		}
	}
}

// A service that runs is backed up, and neither exported nor imported into.
func TestBesideAService(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	file := beside(t, "timers.jsonl")
	do(t, nil, "export", file, "--db-path", populated(t)).wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-1", "--in", "1h").wants(t, exitOK)
	awaitTimer(t, environ, "order-1")
	owner := fmt.Sprint("pid ", os.Getpid())
	for _, args := range [][]string{{"export", beside(t, "x")}, {"import", file}} {
		if got := do(t, environ, args...).wants(t, exitFailure); !strings.Contains(got.stderr, owner) {
			t.Errorf("%s beside a service: %s", args[0], got.stderr)
		}
	}
	copied := beside(t, "copy.db")
	do(t, environ, "backup", copied).wants(t, exitOK)
	do(t, nil, "get", "acme", "order-1", "--db-path", copied).wants(t, exitOK)
}

// TestATimerMovesToPostgresAndFiresThere takes a service from SQLite to PostgreSQL
// and back. A timer that waited fires once, from PostgreSQL; one that had fired
// does not fire again.
func TestATimerMovesToPostgresAndFiresThere(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	path := beside(t, "timers.db")
	onSQLite := []string{"TIMER_BROKER=kafka", "TIMER_BROKER_URL=" + cluster.ListenAddrs()[0], "TIMER_DB_PATH=" + path}
	onPostgres := append(onSQLite[:len(onSQLite):len(onSQLite)], "TIMER_DB_URL="+pgtest.URL(t), "TIMER_HTTP_SOCKET="+beside(t, "sock"))

	_, stop := serve(t, onSQLite)
	do(t, onSQLite, "schedule", "acme", "before", "--in", "0", "--wait").wants(t, exitOK)
	do(t, onSQLite, "schedule", "acme", "moved", "--in", "1h").wants(t, exitOK)
	awaitTimer(t, onSQLite, "moved")
	stop()
	anHourPasses(t, path)
	there := beside(t, "there.jsonl")
	do(t, onSQLite, "export", there).wants(t, exitOK)
	do(t, onPostgres, "import", there).wants(t, exitOK)
	back := beside(t, "back.jsonl")
	do(t, onPostgres, "export", back).wants(t, exitOK)
	if records(t, there) != records(t, back) {
		t.Errorf("SQLite had\n%s\nPostgreSQL has\n%s", records(t, there), records(t, back))
	}

	_, stop = serveAs(t, onPostgres, true) // for the broker it is another database
	do(t, onPostgres, "schedule", "acme", "after", "--in", "0", "--wait").wants(t, exitOK)
	for _, args := range [][]string{{"export", beside(t, "x")}, {"import", there}} {
		if got := do(t, onPostgres, args...).wants(t, exitFailure); !strings.Contains(got.stderr, "instances run on the database (1): stop all of them first") {
			t.Errorf("%s beside a service: %s", args[0], got.stderr)
		}
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("service.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var fired []string
	for len(fired) < 3 {
		for r := range consumer.PollFetches(t.Context()).RecordsAll() {
			fired = append(fired, strings.TrimPrefix(string(r.Key), "acme."))
		}
	}
	if diff := cmp.Diff([]string{"before", "moved", "after"}, fired); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	stop()

	end, last := beside(t, "end.jsonl"), beside(t, "last.jsonl")
	do(t, onPostgres, "export", end).wants(t, exitOK)
	home := []string{"TIMER_DB_PATH=" + beside(t, "home.db")}
	do(t, home, "import", end).wants(t, exitOK)
	do(t, home, "export", last).wants(t, exitOK)
	if records(t, end) != records(t, last) || !strings.Contains(records(t, last), `"reached":3`) {
		t.Errorf("PostgreSQL had\n%s\nSQLite has\n%s", records(t, end), records(t, last))
	}
}

// anHourPasses makes timers due that were scheduled an hour ahead.
func anHourPasses(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE timer_schedules SET due_at = due_at - 3600000 WHERE state = 'Scheduled'`); err != nil {
		t.Fatal(err)
	}
}
