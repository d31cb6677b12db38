// Package fsync waits until files are on disk.
package fsync

import (
	"errors"
	"os"
	"runtime"
)

// File waits until the content of a file is on disk.
func File(path string) error { return sync(path, os.O_RDWR) }

// Folder waits until the names in a folder are on disk. Windows can't.
func Folder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return sync(path, os.O_RDONLY)
}

func sync(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
