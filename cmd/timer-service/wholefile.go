package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// partial is what the name of a file ends in until it is whole.
const partial = ".partial"

// A wholeFile gets its name when it is whole and on the disk. Until then it lies
// beside it as FILE.partial, so that nobody takes a part of it for the whole.
type wholeFile struct {
	verb, path string
}

// newWholeFile makes an empty file that only its owner reads. Neither FILE nor
// FILE.partial may be there.
func newWholeFile(verb, path string) (*wholeFile, error) {
	w := &wholeFile{verb, path}
	if err := w.absent(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(w.partial(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, wrong(verb, "%s exists: it is being written, or a %s was killed; then delete it", w.partial(), verb)
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong(verb, "there is no folder %s", filepath.Dir(path))
	case err != nil:
		return nil, wrong(verb, "%w", err)
	}
	return w, f.Close()
}

func (w *wholeFile) partial() string { return w.path + partial }

// absent returns an error if the file is there.
func (w *wholeFile) absent() error {
	_, err := os.Lstat(w.path)
	switch {
	case err == nil:
		return wrong(w.verb, "%s exists: name a file that does not", w.path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return wrong(w.verb, "%w", err)
}

// sync brings what was written to the disk, and returns how much it is.
func (w *wholeFile) sync() (bytes int64, err error) {
	f, err := os.OpenFile(w.partial(), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// finish gives the file its name, for good.
func (w *wholeFile) finish() error {
	if err := w.absent(); err != nil { // somebody was faster
		return err
	}
	if err := os.Rename(w.partial(), w.path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // which has no way to sync a folder
		return nil
	}
	folder, err := os.Open(filepath.Dir(w.path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// discard removes what is not whole.
func (w *wholeFile) discard() { _ = os.Remove(w.partial()) } // after finish it is gone
