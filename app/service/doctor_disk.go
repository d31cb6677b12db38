//go:build linux || darwin || freebsd

package service

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Free space of a file system.
const (
	littleSpace = 1 << 30
	noSpace     = 16 << 20
)

// disk says whether the folder of the database can take one.
func (x *examination) disk() []Finding {
	const check = "disk"
	if !x.cfg.DBURL.Empty() || x.isUnclear("db_") {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(x.cfg.DBPath))
	if err != nil {
		return []Finding{bad(check, "set db_path", "%v", err)}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		do := "see that this user may use the folder"
		if errors.Is(err, unix.ENOENT) {
			do = "run mkdir -p " + dir
		}
		return []Finding{bad(check, do, "the folder %s: %v", dir, err)}
	}
	var all []Finding
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		all = append(all, bad(check, "give the user of the service the permission to write there", "the folder %s: %v", dir, err))
	}
	free := int64(uint64(s.Bavail) * uint64(s.Bsize)) //nolint:gosec,unconvert // types differ between systems
	switch {
	case free < noSpace:
		all = append(all, bad(check, "free space, or move the database", "the file system of %s is full: %s free", dir, formatSize(free)))
	case free < littleSpace:
		all = append(all, warn(check, "free space before it is full: then no command is taken", "%s free in %s", formatSize(free), dir))
	}
	name, network := fileSystem(&s)
	switch {
	case network:
		all = append(all, bad(check, "use a local disk, or PostgreSQL with db_url", "%s is on a network file system (%s), on which SQLite's locks are not reliable", dir, name))
	case name == "tmpfs":
		all = append(all, warn(check, "use a disk, unless this is a test", "%s is in memory (tmpfs): a restart of the machine loses it", dir))
	}
	if all == nil {
		all = []Finding{ok(check, "%s is writable, %s free", dir, formatSize(free))}
	}
	return all
}
