//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// ownerOf returns what the system knows of a file beside its mode.
func ownerOf(info os.FileInfo) (o owner, known bool) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return o, false
	}
	uid := os.Geteuid()
	return owner{
		ours:   uid == 0 || uint64(s.Uid) == uint64(uid),
		links:  uint64(s.Nlink), //nolint:unconvert // smaller on some systems
		inode:  uint64(s.Ino),   //nolint:unconvert // smaller on some systems
		device: uint64(s.Dev),   //nolint:unconvert // smaller on some systems
	}, true
}
