//go:build unix

package sqlite

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf returns the owner of a file, and false if the system does not tell.
func ownerOf(info os.FileInfo) (o fileOwner, known bool) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return o, false
	}
	uid := os.Geteuid()
	return fileOwner{
		ours:   uid == 0 || uint64(s.Uid) == uint64(uid),
		links:  uint64(s.Nlink), //nolint:unconvert // smaller on some systems
		inode:  uint64(s.Ino),   //nolint:unconvert // smaller on some systems
		device: uint64(s.Dev),   //nolint:unconvert // smaller on some systems
	}, true
}

// access returns why this process may not read and write the files of a database
// that are there, or make those next to it that SQLite needs.
func access(path string) error {
	if err := readWrite(path); err != nil {
		return err
	}
	if err := unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%w: the folder must belong to user %d, whom the service runs as", &fs.PathError{Op: "make files next to", Path: path, Err: err}, os.Geteuid())
	}
	return nil
}

// readWrite returns why this process may not read and write the files of a database
// that are there. It opens none: see [touch].
func readWrite(path string) error {
	for _, suffix := range databaseFiles {
		name := path + suffix
		if err := unix.Access(name, unix.R_OK|unix.W_OK); err != nil && err != unix.ENOENT {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return nil
}
