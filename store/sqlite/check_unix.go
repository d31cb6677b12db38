//go:build linux || darwin || freebsd

package sqlite

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// minFree is how much space a file system must have: less is full within a moment.
const minFree = 1 << 20

// space returns an error if the file system of a path is full.
func space(path string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if free := uint64(s.Bavail) * uint64(s.Bsize); free < minFree { //nolint:gosec,unconvert // types differ between systems
		return fmt.Errorf("the file system of %s is full: %d bytes are free", path, free)
	}
	return nil
}
