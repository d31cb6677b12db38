package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestBackupSaysWhichFlagsGoTogether(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), populated(t)
	for args, want := range map[string]string{
		"":                                "name a file",
		"--every 1h":                      "--to DIR",
		"--to " + dir:                     "--every 1h",
		"--keep 3 copy.db":                "--every and --to",
		"copy.db --every 1h --to " + dir:  "give either",
		"--every 5 --to " + dir:           "with a unit",
		"--every 10ms --to " + dir:        "1s or more",
		"--every 1h --keep 0 --to " + dir: "at least 1",
		"--every 1h --to " + path:         "there is no folder",
		"--every 1h --to " + filepath.Join(dir, "none"): "there is no folder",
	} {
		got := do(t, nil, append([]string{"backup", "--db-path", path}, strings.Fields(args)...)...).wants(t, exitUsage)
		if !strings.Contains(got.stderr, want) {
			t.Errorf("backup %s: %s, want %q", args, got.stderr, want)
		}
	}
	got := do(t, nil, "backup", "--every", "1h", "--to", dir, "--db-path", filepath.Join(dir, "none.db")).wants(t, exitFailure)
	if !strings.Contains(got.stderr, "there is no database to copy") {
		t.Errorf("of nothing: %s", got.stderr)
	}
}

// TestBackupAgainAndAgain until a signal.
func TestBackupAgainAndAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "main", "backup", "--every", "1s", "--keep", "1", "--to", dir, "--db-path", populated(t))
	for range 2 {
		p.prints(t, "backed up 5 timers")
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d\n%s", code, p.stderr.String())
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 || len(files) > 2 { // the second is there before the first is removed
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".db") {
			t.Errorf("%s was left", f.Name())
		}
		do(t, nil, "stats", "--db-path", filepath.Join(dir, f.Name())).wants(t, exitOK)
	}
}
