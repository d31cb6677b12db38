package sqlite

import (
	"context"
	"errors"
	"time"
)

// lockTimeout is how long [Store.Check] waits for the write lock.
const lockTimeout = 700 * time.Millisecond

// errLocked says that transactions wait for one that does not end.
var errLocked = errors.New("another program holds the write lock of the file, or a transaction does not end")

// Check returns what keeps the database from working, as far as it can be found
// without a write: the file is gone or replaced (then the error wraps
// [timer.ErrFatal]), it can't be read, its file system is full or read-only, or
// another program holds the write lock.
func (s *Store) Check(ctx context.Context) error {
	ready, err := s.ready(ctx)
	if err == nil {
		err = ready.file.check()
	}
	if err == nil && ready.file.path != "" {
		if err = access(ready.file.path); err == nil {
			err = space(ready.file.path)
		}
	}
	if err == nil {
		_, err = s.NextDue(ctx, time.Time{})
	}
	if err == nil {
		err = s.lockable(ctx)
	}
	return classify("check the database", err)
}

// lockable takes the write lock and lets it go, which writes nothing. It returns an
// error if it does not get it in time, and no other transaction does.
func (s *Store) lockable(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	before := s.commits.Load()
	locked := make(chan error, 1)
	go func() { // SQLite waits for the lock for longer, and can't be interrupted; Close waits for it
		locked <- s.transact(waiting, s.begin, func(context.Context, *transaction) error { return nil })
	}()
	select {
	case err := <-locked:
		if waiting.Err() == nil {
			return err
		}
	case <-waiting.Done():
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.commits.Load() == before:
		return errLocked
	}
	return nil
}
