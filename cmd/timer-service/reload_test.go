//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestHangUpReloads has the service load quotas again, good ones and a MiB of
// brackets, which once ended the process.
func TestHangUpReloads(t *testing.T) {
	t.Parallel()
	file, db := filepath.Join(t.TempDir(), "quotas.yaml"), filepath.Join(t.TempDir(), "timers.db")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("default: {live_timers: 5}")
	p := start(t, "main", "serve", "--nats-port", "0", "--db-path", db, "--quotas-file", file)
	p.prints(t, "ready")
	before := peakMiB(t, p.Process.Pid)
	for _, step := range []struct{ text, says string }{
		{"default: {live_timers: 7}", "live_timers: 7"},
		{strings.Repeat("[", 1<<20-1), "not valid YAML"},
		{"default: {horizn: 1d}", "horizn"},
		{"default: {live_timers: 8}", "live_timers: 8"},
	} {
		said := p.stderr.expects(step.says)
		write(step.text)
		p.signal(t, syscall.SIGHUP)
		<-said
	}
	if grown := peakMiB(t, p.Process.Pid) - before; grown > 200 {
		t.Errorf("it took %d MiB", grown)
	}
	do(t, []string{"TIMER_DB_PATH=" + db}, "schedule", "acme", "order-1", "--in", "0", "--wait").wants(t, exitOK)
	p.signal(t, syscall.SIGTERM)
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d, want %d", code, exitOK)
	}
	for _, line := range strings.Split(p.stderr.String(), "\n") {
		if strings.Contains(line, "SIGHUP") && !strings.Contains(line, "live_timers: ") && !strings.Contains(line, "each wrong file keeps its last settings") {
			t.Errorf("a reload is said as %s", line)
		}
	}
}

// TestHangUpWithNothingToReload must not end the process either.
func TestHangUpWithNothingToReload(t *testing.T) {
	t.Parallel()
	p := start(t, "main", "serve", "--nats-port", "0")
	p.prints(t, "ready")
	said := p.stderr.expects("reloaded at SIGHUP")
	p.signal(t, syscall.SIGHUP)
	<-said
	p.signal(t, syscall.SIGTERM)
	if code := p.ends(t); code != exitOK || strings.Count(p.stderr.String(), "SIGHUP") != 1 {
		t.Errorf("exit code %d, want %d and one line\n%s", code, exitOK, p.stderr.String())
	}
}

// peakMiB returns the most memory that a process had, 0 if the system does not
// say.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
