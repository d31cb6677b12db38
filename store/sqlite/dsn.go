package sqlite

import (
	"fmt"
	"net/url"
	"path/filepath"
	"time"
)

// A Durability says what a commit survives.
type Durability int

// Durabilities.
const (
	Strict  Durability = iota // a loss of power: every commit is synced
	Relaxed                   // a crash of the process; a loss of power may take the last commits
)

const busyTimeout = 5 * time.Second // how long a statement waits for another process's lock

// DSN returns the data source name that a host should open its database with,
// under the driver name "sqlite": a write-ahead log, synced commits, foreign
// keys, and transactions that take the write lock at once. (A deferred one that
// reads before it writes fails under load, however long it would wait.)
func DSN(path string) string { return dsn(path, Strict, true) }

func dsn(path string, d Durability, write bool) string {
	q := url.Values{}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	q.Add("_pragma", "foreign_keys(on)")
	if write {
		q.Set("_txlock", "immediate")
		q.Add("_pragma", "journal_mode(wal)")
		q.Add("_pragma", map[Durability]string{Strict: "synchronous(full)", Relaxed: "synchronous(normal)"}[d])
	} else {
		q.Add("_pragma", "query_only(on)")
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String()
}
