//go:build linux || darwin || freebsd

package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// minFree is how much space a file system must have: less is full within a moment.
const minFree = 1 << 20

// writable returns an error if the file of a path can't be written, or can't grow.
func writable(path string) error {
	switch err := unix.Access(path, unix.W_OK); {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the file system of %s is read-only", path)
	case err != nil:
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if free := uint64(fs.Bavail) * uint64(fs.Bsize); free < minFree { //nolint:gosec,unconvert // types differ between systems
		return fmt.Errorf("the file system of %s is full: %d bytes are free", path, free)
	}
	return nil
}
