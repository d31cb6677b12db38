package postgres_test

import (
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestSilentServerIsGivenUp asks the system what it does when a server is gone
// with its machine.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	conn, err := open(t, pgtest.URL(t), relaxed).DB().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	if err := conn.Raw(func(driver any) error {
		socket, ok := driver.(*stdlib.Conn).Conn().PgConn().Conn().(syscall.Conn)
		if !ok {
			t.Skip("SKIPPED: the connection is encrypted or not one of TCP")
		}
		raw, err := socket.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Control(func(fd uintptr) {
			ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if err != nil || ms <= 0 || ms > 15_000 {
				t.Errorf("given up after %d ms (%v), want some seconds", ms, err)
			}
		})
	}); err != nil {
		t.Fatal(err)
	}
}
