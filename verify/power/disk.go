//go:build linux

package power

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	loopControl = "/dev/loop-control"
	makeDisk    = "mkfs.ext4"
	diskBytes   = 512 << 20

	// Of linux/fs/ext4/ext4.h: ends the file system at once, without its log.
	shutdownRequest = 0x8004587d // EXT4_IOC_SHUTDOWN
	shutdownNoLog   = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH

	// Where ext4 says on disk that its journal must be replayed.
	featuresAt      = 1024 + 0x60 // s_feature_incompat, four bytes, little end first
	featureRecovery = 0x4

	diskTimeout = 20 * time.Second // for a device that is busy
	diskPause   = 20 * time.Millisecond
)

// Missing returns why no power can be cut on this machine, or nil if it can, and
// whether installing something would help.
func Missing() (mendable bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("it takes root to make and mount a disk")
	}
	if _, err := os.Stat(loopControl); err != nil {
		return false, fmt.Errorf("there are no loop devices: %w", err)
	}
	if _, err := exec.LookPath(makeDisk); err != nil {
		return true, fmt.Errorf("%s is not installed: %w", makeDisk, err)
	}
	return true, nil
}

// A disk is an ext4 file system in a file, of which the power can be cut.
type disk struct {
	image string // the file
	dir   string // where it is mounted
	up    bool   // it is mounted
}

// newDisk makes a disk in dir and mounts it. It must be closed.
func newDisk(ctx context.Context, dir string) (*disk, error) {
	d := &disk{image: filepath.Join(dir, "disk.img"), dir: filepath.Join(dir, "disk")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the disk: %w", err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, fmt.Errorf("make the disk: %w", err)
	}
	if err := os.Truncate(d.image, diskBytes); err != nil {
		return nil, fmt.Errorf("make the disk: %w", err)
	}
	// All at once: a kernel that still works on the disk makes no two cuts alike.
	out, err := exec.CommandContext(ctx, makeDisk, "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", makeDisk, err, out)
	}
	return d, d.mount(ctx)
}

// mount attaches the file to a free loop device and mounts it. The device is
// given back with the last use, so unmounting is all that has to be undone.
func (d *disk) mount(ctx context.Context) error {
	return retry(ctx, func() error {
		loop, err := attach(d.image)
		if err != nil {
			return err
		}
		defer loop.Close()
		if err := unix.Mount(loop.Name(), d.dir, "ext4", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return fmt.Errorf("mount %s: %w", loop.Name(), err)
		}
		d.up = true
		return nil
	})
}

// attach puts a file behind a free loop device, for as long as the device is
// open or mounted.
func attach(image string) (*os.File, error) {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("find a free loop device: %w", err)
	}
	loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &c); err != nil { // busy if another process was faster
		return nil, errors.Join(fmt.Errorf("attach %s to %s: %w", image, loop.Name(), err), loop.Close())
	}
	return loop, nil
}

// cut takes the power away: data that are not on the disk by now never will be. No
// process may be running that writes to it. It fails unless the disk is seen
// dead.
func (d *disk) cut() error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("cut the power: %w", err)
	}
	defer dir.Close()
	how := uint32(shutdownNoLog)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), shutdownRequest, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("cut the power: %w", errno)
	}
	f, err := os.Create(filepath.Join(d.dir, "after-the-cut"))
	if err == nil {
		return errors.Join(errors.New("cut the power: the disk takes new files all the same"), f.Close())
	}
	return nil
}

// restore mounts the disk again after a cut. It fails unless the file system was
// left in the middle of its work, to be repaired from its journal.
func (d *disk) restore(ctx context.Context) error {
	if err := d.unmount(ctx); err != nil {
		return err
	}
	clean, err := wasUnmountedCleanly(d.image)
	switch {
	case err != nil:
		return err
	case clean:
		return errors.New("the power was cut, but the file system has ended cleanly")
	}
	return d.mount(ctx)
}

// wasUnmountedCleanly reports whether a file system needs no recovery.
func wasUnmountedCleanly(image string) (bool, error) {
	f, err := os.Open(image)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var features [4]byte
	if _, err := f.ReadAt(features[:], featuresAt); err != nil {
		return false, fmt.Errorf("read the superblock: %w", err)
	}
	return binary.LittleEndian.Uint32(features[:])&featureRecovery == 0, nil
}

// unmount takes the disk out. Every file on it must be closed.
func (d *disk) unmount(ctx context.Context) error {
	if !d.up {
		return nil
	}
	err := retry(ctx, func() error { return unix.Unmount(d.dir, 0) })
	if err != nil {
		users, _ := holders(d.dir) // for the message only
		return fmt.Errorf("unmount %s, of which processes %v have files: %w", d.dir, users, err)
	}
	d.up = false
	return nil
}

// close takes the disk out, whatever happened before. The image stays.
func (d *disk) close() error {
	err := d.unmount(context.Background())
	if err != nil && unix.Unmount(d.dir, unix.MNT_DETACH) == nil {
		d.up = false
	}
	return err
}

// retry tries again while the device is busy.
func retry(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	tick := time.NewTicker(diskPause)
	defer tick.Stop()
	for {
		err := try()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// isBelow reports whether a path is dir or in it.
func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
