package trust

import "golang.org/x/sys/unix"

// KnowsPeers says whether the system tells who listens on a unix socket.
const KnowsPeers = true

// peerOf returns the user whose process listens at the other end of a unix socket.
func peerOf(fd int) (uid int, err error) {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(who.Uid), nil
}
