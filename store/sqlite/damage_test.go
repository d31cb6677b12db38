package sqlite_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// later is when the timer is due whose row, or entry of an index, is damaged.
var later = noon.Add(time.Hour)

// damagedFile makes a file with a timer due at noon and one due later, of which it
// changes the due time to before noon: in its row, or in the index.
func damagedFile(t *testing.T, inRow bool) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	one, other := schedule("call-1"), schedule("call-2")
	other.DueAt = later
	if _, err := s.Schedule(t.Context(), noon, one, other); err != nil {
		t.Fatal(err)
	}
	must(t, s.Close())
	damage(t, path, later, func(page []byte) bool { return bytes.Contains(page, []byte("command")) == inRow })
	return path
}

// damage changes a due time in a file, in the page that is chosen.
func damage(t *testing.T, path string, due time.Time, chosen func(page []byte) bool) {
	t.Helper()
	const page = 4096
	file, err := os.ReadFile(path)
	must(t, err)
	changed := 0
	for at := 0; at < len(file); at += page {
		of := file[at : at+page]
		i := bytes.Index(of, number(due))
		if i < 0 || !chosen(of) {
			continue
		}
		of[i+1] ^= 1 << 7 // hundreds of years
		changed++
	}
	if changed != 1 {
		t.Fatalf("changed %d due times, want 1", changed)
	}
	must(t, os.WriteFile(path, file, 0o600))
}

// number is a time as SQLite has it.
func number(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))[2:]
}

// TestAnIndexThatDiffersIsFatal: the due time of the row counts, so nothing fires early.
func TestAnIndexThatDiffersIsFatal(t *testing.T) {
	t.Parallel()
	for name, inRow := range map[string]bool{"the row": true, "the index": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, damagedFile(t, inRow), sqlite.Options{})
			var err error
			for _, now := range []time.Time{noon, later} {
				calls, failed := reachAt(t, s, now)
				if err = errors.Join(err, failed); slices.Contains(calls, "call-2") {
					t.Errorf("fired %v at %v", calls, now)
				}
			}
			if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "restore a backup, or move the file") {
				t.Errorf("%v, want ErrFatal with the way out", err)
			}
		})
	}
}

// reachAt returns the service calls that a transaction reaches.
func reachAt(t *testing.T, s *sqlite.Store, now time.Time) (calls []timer.ServiceCallID, err error) {
	t.Helper()
	err = s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), now, 10, nil)
		for _, e := range entries {
			calls = append(calls, e.ServiceCallID)
		}
		return err
	})
	return calls, err
}

// TestADamagedFileIsRefusedWithTheWayOut: quick_check finds what no statement reads.
func TestADamagedFileIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	exec(t, s.DB(), `PRAGMA ignore_check_constraints = on`)
	scheduled(t, s, "call-1")
	exec(t, s.DB(), `UPDATE timer_schedules SET state = 'Scheduler'`)
	must(t, s.Close())
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "restore a backup, or move the file") || !strings.Contains(err.Error(), "CHECK constraint failed") {
		t.Errorf("%v", err)
	}
}
