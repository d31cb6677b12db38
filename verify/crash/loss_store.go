package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sqliteFiles are the files of a SQLite database, and the lock next to it.
var sqliteFiles = []string{"", "-wal", "-shm", "-journal", ".lock"}

// wipe removes the database, as if it had never been used. No service runs on it.
func (f *sqliteFile) wipe() error {
	for _, suffix := range sqliteFiles {
		if err := os.Remove(f.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copy has the service copy its database while it works.
func (f *sqliteFile) copy(ctx context.Context, r *run) error {
	f.made++
	file := filepath.Join(r.dir, fmt.Sprintf("copy-%d.db", f.made))
	if err := r.instances[0].backup(ctx, file); err != nil {
		return err
	}
	f.copies = append(f.copies, file)
	if len(f.copies) <= maxCopies {
		return nil
	}
	oldest := f.copies[0]
	f.copies = f.copies[1:]
	return os.Remove(oldest)
}

// restore puts any of the copies in the place of the database, as the service's help on
// backups says. No service runs on it.
func (f *sqliteFile) restore(r *run) error {
	if err := f.wipe(); err != nil {
		return err
	}
	file := f.copies[r.rand.IntN(len(f.copies))]
	fmt.Fprintf(r.opt.Progress, "life %d is over: restore %s\n", r.lives, filepath.Base(file))
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path, text, 0o600)
}
