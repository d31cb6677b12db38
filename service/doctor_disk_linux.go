package service

import "golang.org/x/sys/unix"

// fileSystem returns the name of a file system that matters, and whether it is a network file
// system.
func fileSystem(s *unix.Statfs_t) (name string, network bool) {
	switch uint32(s.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.NFS_SUPER_MAGIC:
		return "NFS", true
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "SMB", true
	case unix.CEPH_SUPER_MAGIC:
		return "CephFS", true
	case unix.V9FS_MAGIC:
		return "9P", true
	case unix.TMPFS_MAGIC:
		return "tmpfs", false
	}
	return "", false
}
