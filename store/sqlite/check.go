package sqlite

import (
	"context"
	"time"
)

// Check returns what keeps the database from working, as far as it can be found
// without a write: the file is gone or replaced (then the error wraps
// [timer.ErrFatal]), it can't be read, or its file system is full or read-only.
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
	return classify("check the database", err)
}
