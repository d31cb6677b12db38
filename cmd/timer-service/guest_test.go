//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user who owns nothing.
const nobody = 65534

// TestAnotherUserOfTheMachine runs the program as another user of the machine, who may
// neither ask a service of this one nor read its database.
func TestAnotherUserOfTheMachine(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	db := filepath.Join(dir, "timers.db")
	p := start(t, "main", "serve", "--nats-port", "0", "--db-path", db)
	p.prints(t, "ready")

	as := asNobody(t, dir)
	open := filepath.Join(dir, "open.db")
	must(t, errors.Join(os.WriteFile(open, nil, 0o600), os.Chmod(open, 0o666)))
	local := "TIMER_DB_PATH=" + db
	for _, test := range []struct {
		environ string
		args    []string
		code    int
		says    string
	}{
		{local, []string{"schedule", "acme", "order-1", "--in", "0"}, exitFailure, "timers.db.sock: connect: permission denied"},
		{local, []string{"list", "acme"}, exitFailure, "open " + db + ": permission denied"},
		{"TIMER_DB_PATH=" + open, []string{"serve"}, exitFailure, "others may read or write " + open},
	} {
		if code, out := as(test.environ, test.args...); code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", test.args, code, test.code, test.says, out)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING IS PROVEN: only root can be another user")
	}
}

// asNobody returns a function that runs the program in a folder as [nobody], and
// returns the exit code and all that it prints.
func asNobody(t *testing.T, dir string) func(environ string, args ...string) (int, string) {
	t.Helper()
	theirs := filepath.Join(dir, "timer-service")
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), copyProgram(theirs)))
	return func(environ string, args ...string) (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), theirs, args...)
		cmd.Dir, cmd.Env = dir, []string{asProgram + "=main", environ}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
}

// copyProgram copies this program where others may run it. It is a link where that is possible:
// a process that another test starts meanwhile would have the copy open, and it could not be run.
func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil || os.Link(self, to) == nil {
		return err
	}
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// TestNoTokenForAnotherUsersSocket has another user make the socket first, in a folder like
// /tmp: a verb sends nothing there, and does not read the database in its place.
func TestNoTokenForAnotherUsersSocket(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777|os.ModeSticky), copyProgram(filepath.Join(dir, "thief"))))
	db := filepath.Join(dir, "timers.db")
	p := prepare(t, nil, "thief", db+".sock")
	p.Path, p.Dir = filepath.Join(dir, "thief"), dir
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	must(t, p.Start())
	p.prints(t, "listening")
	for _, verb := range [][]string{{"stats"}, {"pause"}} {
		do(t, []string{"TIMER_DB_PATH=" + db, "TIMER_HTTP_TOKEN=hunter2hunter2hunter2"}, verb...).
			wants(t, exitFailure).says(t, db+".sock", fmt.Sprintf("user %d", nobody))
		if p.lines.Scan(); strings.Contains(p.lines.Text(), "hunter2") {
			t.Errorf("%v: the thief was %s", verb, p.lines.Text())
		}
	}
}

// TestRootAsksTheServiceOfAnotherUser, as an administrator does with a package: the service has a
// folder of its own, in one that only root writes to.
func TestRootAsksTheServiceOfAnotherUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(data, 0o700), os.Chown(data, nobody, nobody), copyProgram(filepath.Join(dir, "timer-service"))))
	environ := []string{"TIMER_DB_PATH=" + filepath.Join(data, "timers.db"), "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR=", "TIMER_HTTP_TOKEN=0123456789abcdef"}
	p := prepare(t, environ, "main", "serve")
	p.Path, p.Dir = filepath.Join(dir, "timer-service"), data
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	must(t, p.Start())
	p.prints(t, "ready")
	do(t, environ, "pause").wants(t, exitOK)
	do(t, environ, "backup", filepath.Join(dir, "copy.db")).wants(t, exitOK)
	if got := do(t, environ, "doctor"); strings.Contains(got.stdout, "belongs to") {
		t.Errorf("the doctor: %s", got.stdout)
	}
}

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
