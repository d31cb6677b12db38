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
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777|os.ModeSticky), copyProgram(filepath.Join(dir, "thief"))); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "timers.db")
	p := prepare(t, nil, "thief", db+".sock")
	p.Path, p.Dir = filepath.Join(dir, "thief"), dir
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.prints(t, "listening")
	for _, verb := range [][]string{{"stats"}, {"pause"}} {
		do(t, []string{"TIMER_DB_PATH=" + db, "TIMER_HTTP_TOKEN=hunter2hunter2hunter2"}, verb...).
			wants(t, exitFailure).says(t, db+".sock", fmt.Sprintf("user %d", nobody))
		if p.lines.Scan(); strings.Contains(p.lines.Text(), "hunter2") {
			t.Errorf("%v: the thief was %s", verb, p.lines.Text())
		}
	}
}
