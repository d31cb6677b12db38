package app_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// migrated is an empty database, made once.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "empty.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// newDatabase makes a file a copy of an empty database, unless it is there. In a
// bubble, [migrated] must have been called outside before.
func newDatabase(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	empty, err := migrated()
	if err != nil {
		return err
	}
	return os.WriteFile(path, empty, 0o600)
}

// unsynced opens a database as a host does, without syncs: what a test throws
// away needs to survive no loss of power.
func unsynced(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	if err := newDatabase(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", sqlite.DSN(path)+"&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(2) // one that reads and one that writes: each has to learn the schema
	return sqlite.New(db, sqlite.Options{})
}

func closeUnsynced(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := errors.Join(s.Close(), s.DB().Close()); err != nil {
		t.Error(err)
	}
}
