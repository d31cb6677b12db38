//go:build linux || darwin || freebsd

package service

import (
	"errors"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// littleSpace is an amount of free space on a file system.
const littleSpace = 1 << 30

// disk reports whether the folder of the database is fit for one.
func (x *examination) disk() []app.Check {
	if !x.cfg.DBURL.Empty() {
		return nil
	}
	err := sqlite.Usable(x.cfg.DBPath)
	if err == nil && x.cfg.Embedded() {
		err = guardEmbedded(embeddedDir(x.cfg))
	}
	if err = errors.Join(err, x.cfg.CheckFolders()); err != nil {
		return []app.Check{found(symptom.FolderRefused, oneLine(err))}
	}
	var s unix.Statfs_t
	dir := filepath.Dir(x.cfg.DBPath)
	absent := errors.Is(unix.Statfs(dir, &s), unix.ENOENT)
	if absent { // the service makes it
		_ = unix.Statfs(filepath.Dir(dir), &s)
	}
	free := uint64(s.Bavail) * uint64(s.Bsize) //nolint:gosec,unconvert // types differ between systems
	name, network := fileSystem(&s)
	switch {
	case network:
		return []app.Check{found(symptom.NetworkDisk, dir, name)}
	case name == "tmpfs":
		return []app.Check{found(symptom.InMemory, dir)}
	case free < littleSpace:
		return []app.Check{found(symptom.LittleSpace, dir, humanize.IBytes(free))}
	case absent:
		return []app.Check{ok("disk", "there is no folder %s: the service makes it when it starts, %s free", dir, humanize.IBytes(free))}
	}
	return []app.Check{ok("disk", "%s is writable, %s free", dir, humanize.IBytes(free))}
}
