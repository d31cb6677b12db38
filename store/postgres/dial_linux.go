package postgres

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUp makes the system close a connection when the other side has not answered for a
// while, even while data is unacknowledged, when no keep-alive is sent. A server that is lost
// with its machine does not close its connections.
func giveUp(_, _ string, conn syscall.RawConn) error {
	var err error
	controlled := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(controlled, err)
}
