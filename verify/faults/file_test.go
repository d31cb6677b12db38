package faults_test

import (
	"os"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
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
			dir := t.TempDir()
			w, path := open(t, inFile(dir)), database(dir)
			harness.Must(t, test.harm(path))
			harmed := time.Now()
			noticed := w.service.says("a part of the application ended", harmed, 10*time.Second).At.Sub(harmed)
			if noticed > time.Second+grace {
				t.Errorf("noticed after %v, want at most a second", noticed)
			}
			harness.Until(t, "the end of the service", 30*time.Second, w.service.HasEnded)
			if err := w.service.Err; err == nil || err.Error() != "exit status 1" {
				t.Errorf("it ended with %v, want exit status 1", err)
			}
			harness.Until(t, "commands that were sent afterwards", time.Minute, func() bool { return w.sentSince(harmed) > 50 })
			w.nothingAcked(harmed, time.Now())
			if test.repair == nil {
				w.stopProducing()
				return
			}
			harness.Must(t, test.repair(path))
			w.service.start()
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
