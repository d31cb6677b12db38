package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/internal/fsync"
)

// partial is the suffix of the name of a file that is being written.
const partial = ".partial"

// writeWhole writes a file that only its owner can read, and returns its size. The file is
// named FILE.partial until it is complete and on disk, so that FILE is never incomplete.
// Neither may exist before.
func writeWhole(verb, path string, write func(*os.File) error) (bytes int64, err error) {
	if err := absent(verb, path); err != nil {
		return 0, err
	}
	name := path + partial
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return 0, wrong(verb, "%s exists: it is being written, or a %s was killed; then delete it", name, verb)
	case err != nil:
		return 0, wrong(verb, "%w", err)
	}
	defer func() { _ = os.Remove(name) }() // fails once the file is renamed
	if err := errors.Join(write(f), f.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err := errors.Join(err, fsync.File(name), absent(verb, path)); err != nil { // it may exist by now
		return 0, err
	}
	return info.Size(), errors.Join(os.Rename(name, path), fsync.Folder(filepath.Dir(path)))
}

// absent returns an error if a file exists, or the folder does not.
func absent(verb, path string) error {
	_, err := os.Lstat(path)
	_, noFolder := os.Stat(filepath.Dir(path))
	switch {
	case err == nil:
		return wrong(verb, "%s exists: name a file that does not", path)
	case errors.Is(noFolder, fs.ErrNotExist):
		return wrong(verb, "there is no folder %s", filepath.Dir(path))
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return wrong(verb, "%w", err)
}
