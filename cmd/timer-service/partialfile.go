package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/internal/fsync"
)

// A partialFile is a file that is being written. It is named FILE.partial until it
// is complete and on disk, so that FILE is never incomplete.
type partialFile struct {
	verb, path string
}

// newPartialFile creates an empty file that only its owner can read. Neither FILE
// nor FILE.partial may exist.
func newPartialFile(verb, path string) (*partialFile, error) {
	p := &partialFile{verb, path}
	if err := p.absent(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.partial(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, wrong(verb, "%s exists: it is being written, or a %s was killed; then delete it", p.partial(), verb)
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong(verb, "there is no folder %s", filepath.Dir(path))
	case err != nil:
		return nil, wrong(verb, "%w", err)
	}
	return p, f.Close()
}

func (p *partialFile) partial() string { return p.path + ".partial" }

// absent returns an error if FILE exists.
func (p *partialFile) absent() error {
	_, err := os.Lstat(p.path)
	switch {
	case err == nil:
		return wrong(p.verb, "%s exists: name a file that does not", p.path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return wrong(p.verb, "%w", err)
}

// finish syncs the file to disk, renames it, and returns its size.
func (p *partialFile) finish() (bytes int64, err error) {
	info, err := os.Stat(p.partial())
	if err != nil {
		return 0, err
	}
	if err := fsync.File(p.partial()); err != nil {
		return 0, err
	}
	if err := p.absent(); err != nil { // created meanwhile
		return 0, err
	}
	if err := os.Rename(p.partial(), p.path); err != nil {
		return 0, err
	}
	return info.Size(), fsync.Folder(filepath.Dir(p.path))
}

// discard removes an incomplete file.
func (p *partialFile) discard() { _ = os.Remove(p.partial()) } // after finish there is none
