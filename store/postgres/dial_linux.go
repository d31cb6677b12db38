package postgres

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUp has the system close a connection when the other side has not answered
// for a while, also while something is on its way, for which no keep-alive is
// sent: a server that is gone with its machine says no good-bye.
func giveUp(_, _ string, conn syscall.RawConn) error {
	var err error
	controlled := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(controlled, err)
}
