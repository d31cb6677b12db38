package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReadOnlyFileSystem runs the verbs on a file system that is mounted for
// reading only.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	as := asNobody(t, dir)
	disk := filepath.Join(dir, "disk")
	if err := errors.Join(os.Mkdir(disk, 0o755), os.Mkdir(filepath.Join(dir, "own"), 0o755), os.Chown(filepath.Join(dir, "own"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("SKIPPED, NOTHING IS PROVEN: this root may not mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, db := range []string{filepath.Join(disk, "t.db"), filepath.Join(dir, "own", "t.db")} {
		do(t, nil, "migrate", "--db-path", db).wants(t, exitOK)
		if err := os.Chown(db, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"get acme x", "list acme", "stats", "backup own/copy.db", "export -", "migrate", "serve"} {
		checkDenied(t, as, "disk/t.db", verb, "read-only file system")
	}
	for _, verb := range []string{"backup disk/copy.db", "export disk/copy.jsonl"} {
		checkDenied(t, as, "own/t.db", verb, "read-only file system")
	}
}
