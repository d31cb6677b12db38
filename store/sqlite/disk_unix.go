//go:build linux || darwin || freebsd

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// minFree is how much space a file system must have: less is full within a moment.
const minFree = 1 << 20

// space returns an error if the file system of a path is read-only or full.
//
// One that the kernel made read-only because of an error says so only to who opens a
// file (ext4 of Linux 6.18). That is the log: SQLite has no locks on it, which would
// end with the closing.
func space(path string) error {
	log, err := unix.Open(path+logSuffix, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(log)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) { // a host may have closed the last connection
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if free := uint64(s.Bavail) * uint64(s.Bsize); free < minFree { //nolint:gosec,unconvert // types differ between systems
		return fmt.Errorf("the file system of %s is full: %d bytes are free", path, free)
	}
	return nil
}

// DiskUsed returns the used part of the space that the user of the process may use in the file
// system of a path, from 0 to 1; 0 if that is not known.
func DiskUsed(path string) float64 {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil || s.Blocks == 0 {
		return 0
	}
	used := float64(s.Blocks - s.Bfree)
	return used / (used + float64(s.Bavail))
}
