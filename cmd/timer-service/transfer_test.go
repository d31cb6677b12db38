package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// records returns the lines of an export without its header.
func records(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "\n")
	return rest
}

func tempPath(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

// ownerOnly fails the test unless a file is alone in its folder, and its owner's only. It
// returns its size.
func ownerOnly(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); info.Mode().Perm() != 0o600 || len(files) != 1 {
		t.Errorf("%s has the mode %v, and its folder has %v", path, info.Mode(), files)
	}
	return info.Size()
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	from, first, second, copied := populated(t), tempPath(t, "timers.jsonl"), tempPath(t, "again.jsonl"), tempPath(t, "new.db")
	exported := do(t, nil, "export", first, "--db-path", from).wants(t, exitOK).
		prints(t, "exported 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled) in ", "\nfile "+first+", sha256 of the lines between its first and its last ")
	imported := do(t, nil, "import", first, "--db-path", copied).wants(t, exitOK).
		prints(t, "imported 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled) in ", "\nread back and verified, file "+first+", sha256 of the lines between its first and its last ")
	if last := func(s string) string { return s[len(s)-65:] }; last(exported.stdout) != last(imported.stdout) {
		t.Errorf("checksums differ:\n%s%s", exported.stdout, imported.stdout)
	}
	got := decode(t, do(t, nil, "export", second, "--db-path", copied, "-o", "json").wants(t, exitOK).stdout)
	has(t, got, map[string]any{
		"result": "exported", "file": second, "scheduled": 2.0, "reached": 1.0, "expired": 0.0, "canceled": 2.0, "bytes": float64(ownerOnly(t, second)),
	})
	if records(t, first) != records(t, second) {
		t.Errorf("exported\n%s\nand after an import\n%s", records(t, first), records(t, second))
	}

	// The same through pipes, which leave no temporary file.
	out := do(t, nil, "export", "-", "--db-path", from).wants(t, exitOK).says(t, "exported 5 timers")
	if !strings.HasSuffix(out.stdout, "\n"+records(t, first)) {
		t.Errorf("stdout has\n%s", out.stdout)
	}
	tmp := t.TempDir()
	p := prepare(t, []string{"TMPDIR=" + tmp}, "main", "import", "-", "--db-path", tempPath(t, "new.db"))
	p.Stdin = strings.NewReader(out.stdout)
	must(t, p.Start())
	p.prints(t, "imported 5 timers")
	if files, _ := filepath.Glob(filepath.Join(tmp, "*")); p.ends(t).code != exitOK || len(files) > 0 {
		t.Errorf("%s: the folder for temporary files has %v", p.stderr.String(), files)
	}
}

// A file that was changed, or a database that is in use, is not imported into.
func TestImportOfAChangedFileImportsNothing(t *testing.T) {
	t.Parallel()
	file := tempPath(t, "timers.jsonl")
	do(t, nil, "export", file, "--db-path", populated(t)).wants(t, exitOK)
	used := populated(t)
	do(t, nil, "import", file, "--db-path", used).wants(t, exitFailure).says(t, "sqlite "+used+" holds timers, events or messages already: import into a new database")
	whole := strings.SplitAfter("{}\n"+records(t, file), "\n")
	header, err := os.ReadFile(file)
	must(t, err)
	whole[0], _, _ = strings.Cut(string(header), "\n")
	whole[0] += "\n"
	for says, changed := range map[string]string{
		"line 1: ": strings.Join(append([]string{"{}\n"}, whole[1:]...), ""),
		"the file ends here, without a trailer: it is incomplete": strings.Join(whole[:3], ""),
		"line 7: ": strings.Replace(strings.Join(whole, ""), "command-2", "command-9", 1),
	} {
		to := tempPath(t, "new.db")
		do(t, nil, "import", fileOf(t, changed), "--db-path", to).wants(t, exitFailure).says(t, says)
		if files, _ := filepath.Glob(to + "*"); len(files) > 0 {
			t.Errorf("%s: it leaves %v", says, files)
		}
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	from, copied, other := populated(t), tempPath(t, "copy.db"), tempPath(t, "other.db")
	do(t, nil, "backup", copied, "--db-path", from).wants(t, exitOK).
		prints(t, "backed up 5 timers (2 Scheduled, 1 Reached, 0 Expired, 2 Canceled), 0 events, 0 parked, schema ", ", to "+copied+": ", " in ")
	bytes := ownerOnly(t, copied)
	want := do(t, nil, "list", "acme", "--db-path", from).wants(t, exitOK).stdout
	if diff := cmp.Diff(want, do(t, nil, "list", "acme", "--db-path", copied).wants(t, exitOK).stdout); diff != "" {
		t.Errorf("the copy has (-want +got):\n%s", diff)
	}
	has(t, decode(t, do(t, nil, "backup", other, "--db-path", from, "-o", "json").wants(t, exitOK).stdout), map[string]any{
		"result": "backed up", "file": other, "bytes": float64(bytes), "scheduled": 2.0, "reached": 1.0, "expired": 0.0, "canceled": 2.0, "outbox": 0.0, "parked": 0.0,
	})
	do(t, nil, "backup", "-", "--db-path", from).wants(t, exitUsage).says(t, "name a file") // export writes to stdout
	do(t, nil, "backup", tempPath(t, "x"), "--db-path", tempPath(t, "absent.db")).wants(t, exitFailure).says(t, "absent.db: has the service run here?")
	got := do(t, []string{"TIMER_DB_URL=postgres://user:hunter2@localhost/timers"}, "backup", tempPath(t, "x")).wants(t, exitUsage).says(t, "pg_dump", "point-in-time recovery")
	if strings.Contains(got.stderr, "hunter2") {
		t.Errorf("the password shows: %s", got.stderr)
	}
}

// An existing file is never overwritten, and a failure leaves no file.
func TestFilesAreCompleteOrAbsent(t *testing.T) {
	t.Parallel()
	from := populated(t)
	for _, verb := range []string{"backup", "export"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		refuses := func(want string, args ...string) {
			t.Helper()
			do(t, nil, append([]string{verb, "--db-path", from}, args...)...).wants(t, exitUsage).says(t, want, verb+" --help")
		}
		for name, want := range map[string]string{"file": path + ": file already exists: name a file that does not", "file.partial": "it is being written, or a process was killed that wrote it; then delete it"} {
			name = filepath.Join(dir, name)
			must(t, os.WriteFile(name, []byte("precious"), 0o600))
			refuses(want, path)
			if text, err := os.ReadFile(name); err != nil || string(text) != "precious" {
				t.Errorf("%s: %s has %q, %v", verb, name, text, err)
			}
			must(t, os.Remove(name))
		}
		refuses("db_url is set and wins", path, "--db-url", "postgres://user@localhost/timers")
		do(t, nil, verb, path, "--db-path", filepath.Join(dir, "absent.db")).wants(t, exitFailure)
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
			t.Errorf("%s left %v", verb, files)
		}
	}
	do(t, nil, "import", "/nowhere/timers.jsonl").wants(t, exitUsage)
	do(t, nil, "import", "-", "--db-path", "x.db", "--db-url", "postgres://user@localhost/timers").wants(t, exitUsage)
}

// A service that runs is backed up, and neither exported nor imported into.
func TestBesideAService(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	file, copied := tempPath(t, "timers.jsonl"), tempPath(t, "copy.db")
	do(t, nil, "export", file, "--db-path", populated(t)).wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-1", "--in", "1h").wants(t, exitOK)
	await(t, environ, "order-1", "Scheduled")
	for _, args := range [][]string{{"export", tempPath(t, "x")}, {"import", file}} {
		do(t, environ, args...).wants(t, exitFailure).says(t, "pid ")
	}
	do(t, environ, "backup", copied).wants(t, exitOK)
	do(t, nil, "get", "acme", "order-1", "--db-path", copied).wants(t, exitOK)
}

// TestPostgresIsExportedAndImported takes timers from SQLite to PostgreSQL, and back, and
// is refused while instances run.
func TestPostgresIsExportedAndImported(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_BROKER=gochannel", "TIMER_DB_URL=" + pgtest.URL(t), "TIMER_HTTP_SOCKET=" + tempPath(t, "sock")}
	there, back := tempPath(t, "there.jsonl"), tempPath(t, "back.jsonl")
	do(t, nil, "export", there, "--db-path", populated(t)).wants(t, exitOK)
	do(t, environ, "import", there).wants(t, exitOK)
	do(t, environ, "export", back).wants(t, exitOK)
	if records(t, there) != records(t, back) {
		t.Errorf("SQLite had\n%s\nPostgreSQL has\n%s", records(t, there), records(t, back))
	}
	serve(t, environ)
	for _, args := range [][]string{{"export", tempPath(t, "x")}, {"import", there}} {
		do(t, environ, args...).wants(t, exitFailure).says(t, "instances run on the database (1): stop all of them first")
	}
}

func TestProgressIsShownAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		p := &progress{w: &stderr}
		for range 220 {
			p.add("exported", 1)
			time.Sleep(50 * time.Millisecond)
		}
		p.add("checked", 1)
		if got := stderr.String(); got != "101 exported, 20/s\n201 exported, 20/s\n" {
			t.Errorf("shows %q", got)
		}
	})
}
