package faults_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A disk is a small file system of its own, which can be filled.
type disk struct {
	t   *testing.T
	dir string
}

// mount makes a disk that is there until the test ends.
func mount(t *testing.T) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		harness.Missing(t, "only root can mount a small file system")
	}
	d := &disk{t: t, dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, "size=64m"); err != nil {
		harness.Missing(t, "mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill writes until the disk is full.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.Create(d.filler())
	harness.Must(d.t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		n, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			if n == 0 {
				size /= 2
			}
		case err != nil:
			d.t.Fatal(err)
		}
	}
}

// free frees the disk again.
func (d *disk) free() {
	d.t.Helper()
	harness.Must(d.t, os.Remove(d.filler()))
}

// fullFor is how long a disk stays full.
const fullFor = 8 * time.Second

// TestDiskOfTheDatabaseIsFull fills the disk under load, and kills the service. A small
// command may fit where others did not, and is acked then: that it was stored is seen
// when there is space again.
func TestDiskOfTheDatabaseIsFull(t *testing.T) {
	t.Parallel()
	d := mount(t)
	w := open(t, inFile(d.dir))
	d.fill()
	full := w.service.says("disk is full", time.Time{}, time.Minute).At
	w.staysFull(full)
	w.service.kill()
	d.free()
	w.service.start()
	w.goesOn(100)
	w.settle(90 * time.Second)
}

// TestDiskOfAllIsFull fills the disk of the database and the embedded broker.
func TestDiskOfAllIsFull(t *testing.T) {
	t.Parallel()
	takesLong(t)
	d := mount(t)
	w := openEmbedded(t, d.dir)
	d.fill()
	w.staysFull(time.Now())
	d.free()
	w.goesOn(100)
	w.settle(90 * time.Second)
}

// staysFull lets the service live with a full disk for a while.
func (w *world) staysFull(since time.Time) {
	w.Helper()
	awaitTime(w.T, since, fullFor)
	fitted := w.acked(func(_, acked time.Time) bool { return acked.After(since.Add(grace)) })
	w.Logf("%d commands of %d fitted in while the disk was full", fitted, w.sentSince(since))
}
