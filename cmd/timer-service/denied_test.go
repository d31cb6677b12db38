//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const denied = "permission denied"

// TestFilesThatMayNotBeUsed runs all verbs that use a file as a user who may not
// use it: each says which file, and why, as the system says it.
func TestFilesThatMayNotBeUsed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	as := asNobody(t, dir)
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	folder := func(name string, mode os.FileMode, owner int, files ...string) {
		t.Helper()
		must(t, os.Mkdir(in(name), 0o755))
		for _, file := range files {
			do(t, nil, "migrate", "--db-path", in(name, file)).wants(t, exitOK)
			must(t, os.Chown(in(name, file), owner, owner))
		}
		must(t, errors.Join(os.Chown(in(name), owner, owner), os.Chmod(in(name), mode)))
	}
	folder("root", 0o755, 0, "t.db", "readable.db") // of another user
	folder("hidden", 0o700, 0, "t.db")
	folder("own", 0o755, nobody, "t.db", "log.db", "new.db") // of this one
	folder("readonly", 0o555, nobody, "t.db")
	export := in("export.jsonl")
	do(t, nil, "export", export, "--db-path", in("root", "t.db")).wants(t, exitOK)
	must(t, errors.Join(os.Chmod(in("root", "readable.db"), 0o644), os.WriteFile(in("own", "log.db-wal"), nil, 0o600), os.Chmod(export, 0o644)))
	shared := in("shared.jsonl")
	must(t, os.WriteFile(shared, nil, 0o600))
	reads := []string{"get acme x", "list acme", "list --correlation x", "stats", "stats --tenants", "backup own/copy.db"}
	owns := []string{"export -", "migrate", "serve", "import " + export}
	all := append(reads, owns...)
	for _, test := range []struct {
		db    string
		verbs []string
		says  string // or each of them
	}{
		{"root/t.db", all, denied},
		{"root/readable.db", all, denied},
		{"root/absent.db", owns[1:], denied},
		{"hidden/t.db", all, denied},
		{"readonly/t.db", all, denied},
		{"readonly/absent.db", owns[1:], denied},
		{"own/log.db", reads, "own/log.db-wal: " + denied},
		{"own/log.db", []string{"migrate"}, "own/log.db-wal: " + denied},
		{"absent/t.db", append(reads, "export -"), "no database at absent/t.db"},
		{"absent/t.db", owns[1:], "there is no folder absent"},
		{"own", append(reads, "export -"), "own is a folder"},
		{"own", owns[1:], "own is a folder"},
		{"own/t.db", []string{"backup root/copy.db", "export root/copy.jsonl", "backup hidden/copy.db", "import " + shared}, denied},
		{"own/t.db", []string{"backup absent/copy.db", "export absent/copy.jsonl"}, "no such file or directory"},
	} {
		for _, verb := range test.verbs {
			checkDenied(t, as, test.db, verb, test.says)
		}
	}

	// What SQLite needs may be missing in a folder in which the lock is there.
	must(t, errors.Join(os.WriteFile(in("readonly", "t.db.lock"), nil, 0o600), os.Chown(in("readonly", "t.db.lock"), nobody, nobody)))
	for _, verb := range all {
		checkDenied(t, as, "readonly/t.db", verb, denied)
	}
}

// checkDenied runs a verb on a database. Its error has the text says, and not the text of
// SQLite.
func checkDenied(t *testing.T, as func(string, ...string) (int, string), db, verb, says string) {
	t.Helper()
	code, out := as("TIMER_NATS_PORT=0", append(strings.Fields(verb), "--db-path", db)...)
	if code != exitFailure && code != exitUsage || !strings.Contains(out, says) || strings.Contains(out, "(14)") || strings.Contains(out, "unable to open") || strings.Contains(out, "(1544)") {
		t.Errorf("%s of %s: exit code %d, want %d and %q\n%s", verb, db, code, exitFailure, says, out)
	}
}
