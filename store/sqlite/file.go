package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/event-service-agent/timer-service/internal/trust"
)

// Create makes an empty file that only its owner reads and writes, unless it is
// there. The error says why if others may read or write it.
func Create(path string) error {
	_, err := create(path, nil)
	return err
}

// create is [Create], and returns the path without links, which all who open it
// have in common. It makes the folder too, but none above it, where a mistake in the path
// would be. SQLite gives its log and shared memory the mode of the file.
func create(path string, log *slog.Logger) (string, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	dir := filepath.Dir(path)
	err := Usable(path)
	if _, absent := os.Stat(dir); err == nil && errors.Is(absent, fs.ErrNotExist) {
		log.Info("make the folder of the database", "folder", dir)
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		_, err = touch(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		err = Usable(path)
	}
	if err == nil {
		err = guard(path, log)
	}
	if err != nil {
		return "", fmt.Errorf("create the database: %w", err)
	}
	return path, nil
}

// touch makes an empty file that only its owner reads and writes, unless one is there. That
// one is not opened: closing it would end the locks that SQLite has on it in this process,
// and another process would take the database for closed (https://sqlite.org/howtocorrupt.html).
func touch(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if target, err := os.Readlink(path); err == nil { // a link to a file that is absent
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return touch(target)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Stat(path)
}

// A Durability says which failures a commit survives.
type Durability int

// Durabilities.
const (
	Strict  Durability = iota // a loss of power: every commit is synced
	Relaxed                   // a crash of the process; a loss of power may take the last commits
)

// logLimit is how large the log stays, in bytes, after a reader of another program has kept
// it from being used again.
const logLimit = "journal_size_limit(67108864)"

// busyTimeout is how long a statement waits for another process's lock, in milliseconds.
const busyTimeout = "busy_timeout(5000)"

// DSN returns the data source name that a host should open its database with,
// under the driver name "sqlite": a write-ahead log, synced commits, foreign
// keys, and transactions that take the write lock at once. (A deferred one that
// reads before it writes fails under load, however long it would wait.)
func DSN(path string) string { return dsn(path, "rwc", writerPragmas(Strict)) }

func writerPragmas(d Durability) []string {
	synchronous := "full"
	if d == Relaxed {
		synchronous = "normal"
	}
	return []string{busyTimeout, "journal_mode(wal)", logLimit, "synchronous(" + synchronous + ")", "foreign_keys(on)", tempStore}
}

// tempStore keeps what a statement remembers in memory: a container has no folder for temporary
// files, and elsewhere that may be full.
const tempStore = "temp_store(memory)"

// readerPragmas are the settings of connections that only read.
var readerPragmas = []string{busyTimeout, "query_only(on)", tempStore}

// dsn names a file by its absolute path. Mode is rw, or rwc to create it.
func dsn(path, mode string, pragmas []string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": pragmas}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String()
}

// A fileOwner identifies a file, and says whether this process may change its mode.
type fileOwner struct {
	ours          bool // this process may change its mode
	links         uint64
	inode, device uint64
}

// String names the file, whatever its path.
func (o fileOwner) String() string { return fmt.Sprintf("inode %d of device %d", o.inode, o.device) }

const (
	others        = 0o077 // permissions of all but the owner
	openForOthers = "others may read or write %s (mode %04o): run chmod 600 on it, as its owner"
)

// databaseFiles are the suffixes of the names of a database's files.
var databaseFiles = []string{"", logSuffix, "-shm", "-journal"}

// Usable returns why [Open] would not open a database at a path, nor make one, as far as
// its folder and the modes of its files say that. It changes nothing.
func Usable(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) { // Open makes the last one
			return fmt.Errorf("there is no folder %s", dir)
		}
		if err := access(dir); err != nil {
			return fmt.Errorf("there is no folder %s, and it can't be made: %w", dir, err)
		}
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil { // it is not there yet
		return cmp.Or(guardOwners(path), access(path))
	}
	return cmp.Or(guardOwners(path), guardOwners(real), present(real), notMounted(real), readWrite(real))
}

// guard returns an error if others may read or write the files of a database, or
// replace them. It takes these permissions from the files of a database that is ours, and
// logs that. A file that has no timers was named by mistake, and keeps its mode; so does a
// folder, which may serve other programs, too.
func guard(path string, log *slog.Logger) error {
	for _, suffix := range databaseFiles {
		name := path + suffix
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a file but %v", name, info.Mode().Type())
		}
		if err := oneName(name, info); err != nil {
			return err
		}
		o, known := ownerOf(info)
		if !known || info.Mode()&others == 0 {
			continue
		}
		if !o.ours {
			return fmt.Errorf(openForOthers, name, info.Mode().Perm())
		}
		if err := keepsTimers(path); err != nil {
			return err
		}
		if err := os.Chmod(name, info.Mode().Perm()&^others); err != nil && !errors.Is(err, fs.ErrNotExist) { // looking at the database may have ended its log
			return fmt.Errorf(openForOthers+": %w", name, info.Mode().Perm(), err)
		}
		log.Warn("others could read or write the database; their permissions were removed", "file", name, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	return nil
}

// keepsTimers returns an error unless a file is empty or a database of timers.
func keepsTimers(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return err
	}
	version, err := VersionOf(context.Background(), path)
	if err == nil && version == 0 {
		err = fmt.Errorf("%s has other data than timers, and others may read it (mode %04o): set another db_path, or run chmod 600 on it", path, info.Mode().Perm())
	}
	return err
}

// guardOwners returns an error if another user has made a link on a path or one of the files of the
// database, or may replace them. In a folder like /tmp (with the sticky bit) they can't be replaced.
func guardOwners(path string) error {
	if err := trust.Path(path); err != nil {
		return fmt.Errorf("%w: remove it, or set another db_path", err)
	}
	dir := filepath.Dir(path)
	if err := trust.Folder(dir); err != nil {
		return fmt.Errorf("%w: set db_path to a file in a new folder, such as %s, which the service makes for itself; or have the folder belong to user %d, with chmod 700",
			err, filepath.Join(dir, "timer-service", filepath.Base(path)), os.Geteuid())
	}
	for _, suffix := range append(databaseFiles, lockSuffix) {
		info, err := os.Lstat(path + suffix)
		if err == nil {
			err = trust.File(path+suffix, info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: remove it, or set another db_path", err)
		}
	}
	return nil
}

// oneName returns an error if a file has several names: each would have a lock and
// a log of its own.
func oneName(name string, info os.FileInfo) error {
	if o, known := ownerOf(info); known && o.links > 1 {
		return fmt.Errorf("%s has %d names (hard links; %v), each with a lock and a log of its own: remove the others", name, o.links, o)
	}
	return nil
}

// present returns an error unless there is a database file that has one name.
func present(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the database can't be read: %w", err)
	}
	if err != nil {
		return fmt.Errorf("no database at %s: has the service run here? (%w)", path, err)
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a folder, not a database", path)
	}
	return oneName(path, info)
}

// mountTable lists the mounts of this process, a line each. Other systems than Linux
// have none, and no such mounts either.
const mountTable = "/proc/self/mountinfo"

// notMounted returns an error if a file is mounted by itself, as containers can: what
// SQLite writes next to it, which is all that was committed last, is not in the same place
// then, and ends with the container.
func notMounted(path string) error {
	table, _ := os.ReadFile(mountTable)
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == escaped {
			return fmt.Errorf("%s is a file that is mounted by itself: SQLite's log would stay outside of it, and be lost with the container; mount the folder, such as -v data:%s", path, filepath.Dir(path))
		}
	}
	return nil
}
