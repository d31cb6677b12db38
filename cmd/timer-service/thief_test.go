//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

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
