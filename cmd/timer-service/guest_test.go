//go:build unix

package main

import (
	"errors"
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
