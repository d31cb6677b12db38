package config

import (
	"errors"
	"os"
)

// CheckFolders returns a [*Mistake] if copies of the database are wanted and could not be
// written, since backup_dir is missing or the user may not write there. It tries that with
// a file that it removes again.
func (c Config) CheckFolders() error {
	if c.BackupEvery == 0 {
		return nil
	}
	f, err := os.CreateTemp(c.BackupDir, "timers-*.db.partial") // one that is left behind is removed before the next copy
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err == nil {
		return nil
	}
	fix := "the user of the service may not write there: " + err.Error()
	if errors.Is(err, os.ErrNotExist) {
		fix = "there is no such folder, and backups are to be written there; make it: mkdir -m 700 " + c.BackupDir
	}
	return &Mistake{Key: "backup_dir", Value: c.BackupDir, From: c.origins["backup_dir"].where(), Fix: fix}
}
