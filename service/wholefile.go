package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/internal/fsync"
)

// partial is the suffix of the name of a file that is being written.
const partial = ".partial"

// WriteWhole writes a file that only its owner can read, and returns its size. The file is
// named FILE.partial until it is complete and on disk, so that FILE is never incomplete. If
// either exists, the error wraps [fs.ErrExist].
func WriteWhole(path string, write func(*os.File) error) (bytes int64, err error) {
	if err := absent(path); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: it is being written, or a process was killed that wrote it; then delete it", err)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails once the file is renamed
	if err := errors.Join(write(f), f.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(f.Name())
	if err := errors.Join(err, fsync.File(f.Name()), absent(path)); err != nil { // it may exist by now
		return 0, err
	}
	return info.Size(), errors.Join(os.Rename(f.Name(), path), fsync.Folder(filepath.Dir(path)))
}

// absent returns an error if a file exists.
func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w: name a file that does not", path, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
