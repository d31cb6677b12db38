package sqlite

import (
	"database/sql"
	"sync/atomic"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn returns the connection that a store on a file of its own writes on.
func (s *Store) Conn() *sql.Conn { return s.known.conn }

// LogFails is how many of the next writes to the logs of all stores fail, as on a full
// disk.
var LogFails atomic.Int64

var written uintptr

// FailLog makes [LogFails] work, after a store was opened.
func FailLog() {
	if written == 0 {
		written = logs.base.FxWrite
		logs.base.FxWrite = pointer(failingWrite)
	}
}

func failingWrite(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	if LogFails.Add(-1) >= 0 {
		return sqlite3.SQLITE_FULL
	}
	return function[transfer](written)(tls, file, data, size, offset)
}
