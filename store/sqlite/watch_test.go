package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// TestWatchLooksAgainAfterAnError has the content of an older copy, and a database that can't be
// read at first. Nothing is written later.
func TestWatchLooksAgainAfterAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path, later := filepath.Join(dir, "timers.db"), filepath.Join(dir, "later.db")
		s := openAt(t, path, Options{Durability: Relaxed})
		var err error
		for range 2 {
			err = errors.Join(err, s.Advance(t.Context(), timer.Number{Broker: "broker", Log: "log", Kind: "commands", Number: 1}))
		}
		_, older := s.db.ExecContext(t.Context(), `UPDATE timer_numbers SET number = 1 WHERE log = ''`)
		if err := errors.Join(err, older, s.reads.Close()); err != nil {
			t.Fatal(err)
		}
		s.reads = connect(dsn(later, "rw", readerPragmas), readers)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watched := make(chan error, 1)
		go func() { watched <- s.Watch(ctx) }()
		time.Sleep(watchInterval / 2)
		synctest.Wait()
		if err := os.Symlink(path, later); err != nil {
			t.Fatal(err)
		}
		if err := <-watched; !errors.Is(err, timer.ErrFatal) {
			t.Errorf("%v, want an error that ends the service", err)
		}
	})
}
