package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// takeLock takes the advisory lock beside a database file, and signs it. The
// lock ends with the process; the file stays.
func takeLock(path string) (*flock.Flock, error) {
	name := path + ".lock"
	lock := flock.New(name, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !taken {
		owner, _ := os.ReadFile(name) // for the message only
		return nil, fmt.Errorf("the database %s belongs to another process (%s): stop that one, or set another db_path", path, owner)
	}
	if err := sign(name); err != nil {
		return nil, errors.Join(fmt.Errorf("sign the lock of the database: %w", err), lock.Unlock())
	}
	return lock, nil
}

// sign writes into a file who we are, and since when: by the clock of the file
// system, which is the only one at hand.
func sign(name string) error {
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // for the message only
	text := fmt.Appendf(nil, "pid %d on %s since %s", os.Getpid(), host, info.ModTime().UTC().Format(time.RFC3339))
	return os.WriteFile(name, text, 0o600)
}
