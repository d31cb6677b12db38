package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// vfsName names a VFS that is SQLite's own, but for its write-ahead log. SQLite writes
// each page of a commit with two system calls, one for the header of the frame and one
// for the page. This VFS gathers the frames of a commit and writes them with one call.
//
//	xWrite ─► buffer ─► written with the last frame of a commit, or before anything else is done with the log
//
// No other connection reads the frames of a transaction before it is committed, and it
// is only after its last frame, which says so in its header. In strict durability xSync
// follows. What can't be written fails the write, or the xSync, that is under way.
//
// See https://sqlite.org/vfs.html and https://sqlite.org/fileformat2.html#walformat.
const vfsName = "timer-service"

const (
	frameHeader = 24        // bytes
	logBuffer   = 124 << 10 // bytes that are gathered at most; SQLite writes less than 128 KiB at once
)

// A logFile is what the VFS keeps of an open log, in memory of SQLite.
type logFile struct {
	next    int64   // where a write continues the last one
	buffer  uintptr // logBuffer bytes; 0 before the first write
	size    int32   // bytes in buffer: those before next
	commits bool    // the last write was the header of the last frame of a commit
}

var (
	vfsBase, vfsOurs sqlite3.Tsqlite3_vfs
	logBase, logOurs sqlite3.Tsqlite3_io_methods // set when the first log is opened
	logOnce          sync.Once
)

// registerVFS makes the VFS known to SQLite.
var registerVFS = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		return errors.New("SQLite has no VFS")
	}
	name, err := libc.CString(vfsName)
	if err != nil {
		return err
	}
	vfsBase = *at[sqlite3.Tsqlite3_vfs](base)
	vfsOurs = vfsBase
	vfsOurs.FzName = name
	vfsOurs.FszOsFile += int32(unsafe.Sizeof(logFile{}))
	vfsOurs.FxOpen = pointer(openFile)
	if code := sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&vfsOurs)), 0); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("register the VFS: SQLite error %d", code)
	}
	return nil
})

// openFile has SQLite's own VFS open a file, and gives a log methods of ours.
func openFile(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32](vfsBase.FxOpen)
	code := open(tls, uintptr(unsafe.Pointer(&vfsBase)), name, file, flags, outFlags)
	if code != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return code
	}
	methods := &at[sqlite3.Tsqlite3_file](file).FpMethods
	logOnce.Do(func() {
		logBase = *at[sqlite3.Tsqlite3_io_methods](*methods)
		logOurs = logBase
		logOurs.FxClose, logOurs.FxRead, logOurs.FxWrite = pointer(closeLog), pointer(readLog), pointer(writeLog)
		logOurs.FxTruncate, logOurs.FxSync, logOurs.FxFileSize = pointer(truncateLog), pointer(syncLog), pointer(sizeOfLog)
	})
	*logOf(file) = logFile{}
	*methods = uintptr(unsafe.Pointer(&logOurs))
	return code
}

// logOf returns what is kept of a log, behind what SQLite's own VFS keeps of it.
func logOf(file uintptr) *logFile { return at[logFile](file + uintptr(vfsBase.FszOsFile)) }

// writeLog gathers what continues the last write, and writes anything else at once.
func writeLog(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	log := logOf(file)
	continues := offset == log.next && size <= logBuffer
	if !continues || log.size+size > logBuffer {
		if code := log.flush(tls, file); code != sqlite3.SQLITE_OK {
			return code
		}
	}
	ends := log.commits // the page follows its header
	log.commits = size == frameHeader && binary.BigEndian.Uint32(memory(data, size)[4:]) != 0
	log.next = offset + int64(size)
	if log.buffer == 0 {
		log.buffer = libc.Xmalloc(tls, logBuffer)
	}
	if !continues || log.buffer == 0 {
		return writeBase(tls, file, data, size, offset)
	}
	log.size += int32(copy(memory(log.buffer, logBuffer)[log.size:], memory(data, size)))
	if ends {
		return log.flush(tls, file)
	}
	return sqlite3.SQLITE_OK
}

// flush writes what was gathered. After an error that is lost, as is the transaction.
func (l *logFile) flush(tls *libc.TLS, file uintptr) int32 {
	size := l.size
	if size == 0 {
		return sqlite3.SQLITE_OK
	}
	l.size = 0
	return writeBase(tls, file, l.buffer, size, l.next-int64(size))
}

func writeBase(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	return function[func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32](logBase.FxWrite)(tls, file, data, size, offset)
}

func readLog(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	if code := logOf(file).flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32](logBase.FxRead)(tls, file, data, size, offset)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	if code := logOf(file).flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[func(tls *libc.TLS, file uintptr, flags int32) int32](logBase.FxSync)(tls, file, flags)
}

func truncateLog(tls *libc.TLS, file uintptr, size int64) int32 {
	if code := logOf(file).flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[func(tls *libc.TLS, file uintptr, size int64) int32](logBase.FxTruncate)(tls, file, size)
}

func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	if code := logOf(file).flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[func(tls *libc.TLS, file, size uintptr) int32](logBase.FxFileSize)(tls, file, size)
}

// closeLog closes a log. What was gathered is of no commit.
func closeLog(tls *libc.TLS, file uintptr) int32 {
	libc.Xfree(tls, logOf(file).buffer)
	return function[func(tls *libc.TLS, file uintptr) int32](logBase.FxClose)(tls, file)
}

// at returns what is at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// memory returns the bytes at an address.
func memory(address uintptr, size int32) []byte { return unsafe.Slice(at[byte](address), size) }

// pointer returns a function as translated C takes it, function one that it gives.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](pointer uintptr) F { return *(*F)(unsafe.Pointer(&pointer)) }
