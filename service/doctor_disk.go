//go:build linux || darwin || freebsd

package service

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// These are amounts of free space on a file system.
const (
	littleSpace = 1 << 30
	noSpace     = 16 << 20
)

// disk reports whether the folder of the database is fit for one.
func (x *examination) disk() (all []app.Check) {
	if !x.cfg.DBURL.Empty() || x.isUnclear("db_") {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(x.cfg.DBPath))
	if err != nil {
		return []app.Check{found(symptom.FolderFails, x.cfg.DBPath, err)}
	}
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	if errors.Is(err, unix.ENOENT) { // the service creates the last folder
		err = unix.Statfs(filepath.Dir(dir), &s)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return []app.Check{found(symptom.NoFolder, dir, err)}
	case err != nil:
		return []app.Check{found(symptom.FolderFails, dir, err)}
	}
	if err := sqlite.Usable(x.cfg.DBPath); err != nil {
		all = append(all, found(symptom.FolderRefused, err))
	}
	free := int64(uint64(s.Bavail) * uint64(s.Bsize)) //nolint:gosec,unconvert // types differ between systems
	switch {
	case free < noSpace:
		all = append(all, found(symptom.DiskFull, dir, formatSize(free)))
	case free < littleSpace:
		all = append(all, found(symptom.LittleSpace, dir, formatSize(free)))
	}
	switch name, network := fileSystem(&s); {
	case network:
		all = append(all, found(symptom.NetworkDisk, dir, name))
	case name == "tmpfs":
		all = append(all, found(symptom.InMemory, dir))
	}
	if all == nil {
		all = []app.Check{ok("disk", "%s is writable, %s free", dir, formatSize(free))}
	}
	return all
}
