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

// logLimit is how large the log stays, in bytes, after a reader of another program has kept
// it from being used again.
const logLimit = "journal_size_limit(67108864)"

const busyTimeout = 5 * time.Second // how long a statement waits for another process's lock

// DSN returns the data source name that a host should open its database with,
// under the driver name "sqlite": a write-ahead log, synced commits, foreign
// keys, and transactions that take the write lock at once. (A deferred one that
// reads before it writes fails under load, however long it would wait.)
func DSN(path string) string { return dsn(path, "rwc", writerPragmas(Options{})) }

func writerPragmas(opt Options) []string {
	synchronous := "full"
	if opt.Durability == Relaxed {
		synchronous = "normal"
	}
	return append(pragmas(opt), "journal_mode(wal)", logLimit, "synchronous("+synchronous+")", "foreign_keys(on)", "temp_store(memory)")
}

func readerPragmas(opt Options) []string { return append(pragmas(opt), "query_only(on)") }

func pragmas(opt Options) []string {
	wait := opt.BusyTimeout
	if wait <= 0 {
		wait = busyTimeout
	}
	return []string{fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds())}
}

// dsn names a file by its absolute path. Mode is rw, or rwc to create it.
func dsn(path, mode string, pragmas []string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": pragmas}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String()
}
