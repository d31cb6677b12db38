//go:build linux

package power

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	pageBytes  = 4096
	leakPieces = 3 // the most of a file
)

// leak writes some data that were never synced to the disk all the same: pieces of
// files here and there, and, every other time, the sizes of all of them. The
// kernel may do so at any time and in any order, but hardly ever does within the
// short life between two cuts.
func (d *disk) leak(random *rand.Rand) error {
	err := filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || random.IntN(2) == 0 {
			return err
		}
		return leakPiecesOf(name, random)
	})
	if err == nil && random.IntN(2) == 0 {
		err = d.commitJournal()
	}
	if err != nil {
		return fmt.Errorf("write back: %w", err)
	}
	return nil
}

// leakPiecesOf writes back some pages of a file.
func leakPiecesOf(name string, random *rand.Rand) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	pages := info.Size()/pageBytes + 1
	for range 1 + random.IntN(leakPieces) {
		first := random.Int64N(pages)
		count := 1 + random.Int64N(pages-first)
		const how = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		if err := unix.SyncFileRange(int(f.Fd()), first*pageBytes, count*pageBytes, how); err != nil {
			return err
		}
	}
	return nil
}

// commitJournal has the file system write down what it knows of all files, by
// syncing one of its own.
func (d *disk) commitJournal() error {
	f, err := os.Create(filepath.Join(d.dir, "synced"))
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}
