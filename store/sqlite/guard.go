package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// An owner is what is known of a file beside its mode.
type owner struct {
	ours          bool // this process may change its mode
	links         uint64
	inode, device uint64
}

// String names the file, whatever its path.
func (o owner) String() string { return fmt.Sprintf("inode %d of device %d", o.inode, o.device) }

const (
	others        = 0o077 // permissions of all but the owner
	writtenByAll  = 0o002
	openForOthers = "others may read or write %s (mode %04o): run chmod 600 on it, as its owner"
)

// databaseFiles are what the names of a database's files end with.
var databaseFiles = []string{"", logSuffix, "-shm", "-journal"}

// guard returns an error if others may read or write the files of a database, or
// replace them. What is ours is taken from them, which is logged. A folder is left
// as it is: it may serve others, too.
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
		if err := alone(name, info); err != nil {
			return err
		}
		o, known := ownerOf(info)
		if !known || info.Mode()&others == 0 {
			continue
		}
		if !o.ours {
			return fmt.Errorf(openForOthers, name, info.Mode().Perm())
		}
		if err := os.Chmod(name, info.Mode().Perm()&^others); err != nil {
			return fmt.Errorf(openForOthers+": %w", name, info.Mode().Perm(), err)
		}
		log.Warn("others could read or write the database; their permissions were removed", "file", name, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	return nil
}

// guardFolder returns an error if all users may replace files in the folder of a
// path. In one like /tmp (with the sticky bit) they can't replace ours.
func guardFolder(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if _, known := ownerOf(info); known && info.Mode()&writtenByAll != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("all users may replace files in the folder %s (mode %04o): run chmod o-w on it, or choose another one", dir, info.Mode().Perm())
	}
	return nil
}

// alone returns an error if a file has several names: each would have a lock and
// a log of its own.
func alone(name string, info os.FileInfo) error {
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
	return alone(path, info)
}

// mountTable lists what is mounted for this process, a line each. Other systems than Linux
// have none, and no such mounts either.
const mountTable = "/proc/self/mountinfo"

// notMounted returns an error if a file is mounted by itself, as containers can: what
// SQLite writes beside it, which is all that was committed last, is not in the same place
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
