package trust

import (
	"cmp"
	"fmt"
	"net"
	"os"
)

// Peer returns an error if another user listens on a unix socket to which a connection leads. Root
// trusts the owner of the socket as [File] does. See [KnowsPeers].
func Peer(conn net.Conn, socket string) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var uid int
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peerOf(int(fd)) }); cmp.Or(err, failed) != nil {
		return cmp.Or(err, failed)
	}
	if info, err := os.Lstat(socket); err == nil {
		if owner, _, _ := ownerOf(info); owner == uid && File(socket, info) == nil {
			return nil
		}
	}
	if uid == os.Geteuid() || uid == 0 {
		return nil
	}
	return fmt.Errorf("user %d listens on %s, and this process is of user %d", uid, socket, os.Geteuid())
}
