//go:build darwin || freebsd

package service

import "golang.org/x/sys/unix"

// fileSystem returns the name of a file system that matters, and whether it is a network file
// system.
func fileSystem(s *unix.Statfs_t) (name string, network bool) {
	name = unix.ByteSliceToString(s.Fstypename[:])
	return name, name == "nfs" || name == "smbfs"
}
