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

// vfsName names a VFS that is SQLite's own, but for the write-ahead log. SQLite writes
// each new frame of it with two system calls, one for the header and one for the page.
// This VFS gathers frames in memory, and writes a small commit with one call.
//
//	xWrite ─► buffer ─► written with the last frame of a commit, before the log is read, or when it is full
//	                └─► dropped when the connection releases the lock of the one writer
//
// Frames belong to the transaction that is open: no other connection reads the log where
// they are before they are committed, nor writes there before the lock is released. What
// is still gathered then was rolled back, after SQLite had moved it out of its page cache.
//
// See https://sqlite.org/vfs.html and https://sqlite.org/walformat.html.
const vfsName = "timer-service"

const (
	frameHeader = 24        // bytes
	logBuffer   = 124 << 10 // bytes that are gathered at most; SQLite writes less than 128 KiB at once
	writeLock   = 0         // WAL_WRITE_LOCK of the shared memory
)

// A databaseFile is what the VFS keeps of an open database, in memory of SQLite.
type databaseFile struct {
	log uintptr // the file of its log, 0 before that is opened
}

// A logFile is what the VFS keeps of an open log, in memory of SQLite.
type logFile struct {
	database uintptr // the file of its database
	next     int64   // where a write continues the last one
	buffer   uintptr // logBuffer bytes; 0 before the first write
	size     int32   // bytes in buffer: those before next
	header   bool    // the last write was the header of a frame
	commits  bool    // that header has the mark of a commit
}

// A transfer is an xRead or xWrite.
type transfer = func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32

var (
	vfsBase, vfsOurs sqlite3.Tsqlite3_vfs
	databases, logs  methods
)

// methods are what SQLite does with a kind of file, and what is done instead.
type methods struct {
	once       sync.Once
	address    uintptr // of SQLite's
	base, ours sqlite3.Tsqlite3_io_methods
}

// replace gives a file that SQLite's own VFS has opened our methods. It returns false if
// the file has others than the first one, as on macOS on another kind of file system.
func (m *methods) replace(file uintptr, change func(*sqlite3.Tsqlite3_io_methods)) bool {
	of := at[sqlite3.Tsqlite3_file](file)
	m.once.Do(func() {
		m.address = of.FpMethods
		m.base = *at[sqlite3.Tsqlite3_io_methods](m.address)
		m.ours = m.base
		change(&m.ours)
	})
	if of.FpMethods != m.address {
		return false
	}
	of.FpMethods = uintptr(unsafe.Pointer(&m.ours))
	return true
}

// are says whether a file has our methods.
func (m *methods) are(file uintptr) bool {
	return at[sqlite3.Tsqlite3_file](file).FpMethods == uintptr(unsafe.Pointer(&m.ours))
}

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

// openFile has SQLite's own VFS open a file.
func openFile(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32](vfsBase.FxOpen)
	code := open(tls, uintptr(unsafe.Pointer(&vfsBase)), name, file, flags, outFlags)
	switch {
	case code != sqlite3.SQLITE_OK:
	case flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0:
		databases.replace(file, func(m *sqlite3.Tsqlite3_io_methods) { m.FxShmLock = pointer(lockDatabase) })
		*ours[databaseFile](file) = databaseFile{}
	case flags&sqlite3.SQLITE_OPEN_WAL != 0:
		database := sqlite3.Xsqlite3_database_file_object(tls, name)
		if databases.are(database) && logs.replace(file, func(m *sqlite3.Tsqlite3_io_methods) {
			m.FxClose, m.FxRead, m.FxWrite = pointer(closeLog), pointer(readLog), pointer(writeLog)
		}) {
			*ours[logFile](file) = logFile{database: database}
			ours[databaseFile](database).log = file
		}
	}
	return code
}

// writeLog gathers frames that continue the last write, and writes anything else at once.
func writeLog(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	log := ours[logFile](file)
	if log.buffer == 0 {
		log.buffer = libc.Xmalloc(tls, logBuffer)
	}
	continues := offset == log.next
	page := continues && log.header
	ends := page && log.commits
	log.header = size == frameHeader && !page
	log.commits = log.header && binary.BigEndian.Uint32(memory(data, size)[4:]) != 0
	gathers := continues && (page || log.header) && size <= logBuffer && log.buffer != 0
	if !gathers || log.size+size > logBuffer {
		if code := log.flush(tls, file); code != sqlite3.SQLITE_OK {
			return code
		}
	}
	log.next = offset + int64(size)
	if !gathers {
		return writeBase(tls, file, data, size, offset)
	}
	log.size += int32(copy(memory(log.buffer, logBuffer)[log.size:], memory(data, size)))
	if !ends {
		return sqlite3.SQLITE_OK
	}
	code := log.flush(tls, file)
	log.size = 0 // a commit that failed must not be written later
	return code
}

// readLog writes what was gathered before it reads. After an error of a read, unlike one of
// a write, the transaction may go on, so what was gathered is kept.
func readLog(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	if code := ours[logFile](file).flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[transfer](logs.base.FxRead)(tls, file, data, size, offset)
}

// flush writes what was gathered.
func (l *logFile) flush(tls *libc.TLS, file uintptr) int32 {
	if l.size == 0 {
		return sqlite3.SQLITE_OK
	}
	code := writeBase(tls, file, l.buffer, l.size, l.next-int64(l.size))
	if code == sqlite3.SQLITE_OK {
		l.size = 0
	}
	return code
}

func writeBase(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	return function[transfer](logs.base.FxWrite)(tls, file, data, size, offset)
}

// lockDatabase drops what was gathered when the writer's lock is released or taken, and
// when a read begins, as after locking_mode=EXCLUSIVE, in which nothing is released.
func lockDatabase(tls *libc.TLS, file uintptr, offset, n, flags int32) int32 {
	if log := ours[databaseFile](file).log; log != 0 && (offset == writeLock || flags == sqlite3.SQLITE_SHM_LOCK|sqlite3.SQLITE_SHM_SHARED) {
		ours[logFile](log).size = 0
	}
	return function[func(tls *libc.TLS, file uintptr, offset, n, flags int32) int32](databases.base.FxShmLock)(tls, file, offset, n, flags)
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	log := ours[logFile](file)
	ours[databaseFile](log.database).log = 0
	libc.Xfree(tls, log.buffer)
	return function[func(tls *libc.TLS, file uintptr) int32](logs.base.FxClose)(tls, file)
}

// ours returns what is kept of a file, behind what SQLite's own VFS keeps of it.
func ours[T any](file uintptr) *T { return at[T](file + uintptr(vfsBase.FszOsFile)) }

// at returns what is at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// memory returns the bytes at an address.
func memory(address uintptr, size int32) []byte { return unsafe.Slice(at[byte](address), size) }

// pointer returns a function as translated C takes it, function one that it gives.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](pointer uintptr) F { return *(*F)(unsafe.Pointer(&pointer)) }
