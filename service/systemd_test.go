package service_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSystemdIsNotified has the socket of systemd: it learns of the start, that the
// process works, and of the stop.
func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer socket.Close()
	next := func() string {
		t.Helper()
		must(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		text := make([]byte, 100)
		n, err := socket.Read(text)
		must(t, err)
		return string(text[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000")
	r := run(t, load(t))
	r.line("ready")
	got := []string{next(), next(), next()}
	r.stops()
	last := ""
	for last != "STOPPING=1" {
		last = next()
	}
	if diff := cmp.Diff([]string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
