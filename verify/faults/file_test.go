package faults_test

import (
	"os"
	"testing"
	"time"
)

// TestFileIsTakenAway takes the database's files away while the service runs:
// it must notice within a second, ack nothing more, and end with an error. What
// it has acked is still there when the files are put back.
func TestFileIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm   func(path string) error
		repair func(path string) error // nil if it can't be repaired
	}{
		"unlinked": {harm: os.Remove},
		"replaced": {
			harm:   replace,
			repair: func(path string) error { return os.Rename(path+".old", path) },
		},
		"its log unlinked": {
			harm:   func(path string) error { return os.Remove(path + "-wal") },
			repair: func(string) error { return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			path := database(w.dir)
			if err := test.harm(path); err != nil {
				t.Fatal(err)
			}
			harmed := time.Now()
			noticed := w.service.says("a part of the application ended", harmed, 10*time.Second).at.Sub(harmed)
			code := w.service.ends(30 * time.Second)
			t.Logf("noticed after %v, ended after %v with exit code %d", noticed, time.Since(harmed), code)
			if noticed > time.Second+grace {
				t.Errorf("noticed after %v, want a second at most", noticed)
			}
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			await(t, "commands that were sent afterwards", time.Minute, func() bool { return w.sentSince(harmed) > 50 })
			if n := w.ackedSince(harmed); n > 0 {
				t.Errorf("%d commands were acked that were sent after the file was gone", n)
			}
			if test.repair == nil {
				w.stopProducing()
				return
			}
			if err := test.repair(path); err != nil {
				t.Fatal(err)
			}
			w.serve()
			w.goesOn(50)
			w.settle(90 * time.Second)
		})
	}
}

// replace puts an empty file in the place of one.
func replace(path string) error {
	if err := os.Rename(path, path+".old"); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}
