//go:build unix

package trust

import (
	"os"
	"syscall"
)

// NoFollow is a flag of [os.OpenFile]: a link is not followed.
const NoFollow = syscall.O_NOFOLLOW

// ownerOf returns the user and the group of a file, and false if the system does not tell.
func ownerOf(info os.FileInfo) (uid, gid int, known bool) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}
