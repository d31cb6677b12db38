package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	flips     = 400 // bits that are flipped, one in each copy of the file
	flipTimer = 240 // timers in the file
	flipTries = 10  // polls of a file: one makes the indexes again
)

// TestAFlippedBitNeverFiresWrong flips one bit of a file while no service runs on it.
// Whatever becomes of that, no timer fires that is not as it was scheduled, or early.
func TestAFlippedBitNeverFiresWrong(t *testing.T) {
	t.Parallel()
	const seed = 5
	random := rand.New(rand.NewPCG(seed, seed))
	dir := t.TempDir()
	commands, whole := flippable(t, filepath.Join(dir, "whole.db"))
	outcomes := make(map[string]int)
	for i := range flips {
		position, bit := random.IntN(len(whole)), random.IntN(8)
		whole[position] ^= 1 << bit
		path := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		whole[position] ^= 1 << bit
		outcome, err := fireFlipped(t.Context(), path, commands)
		if err != nil {
			t.Errorf("bit %d of byte %d flipped: %v", bit, position, err)
		}
		outcomes[outcome]++
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	t.Log(outcomes)
	if outcomes[asScheduled] == 0 || outcomes[setAside] == 0 || outcomes[refused] == 0 {
		t.Errorf("outcomes %v: want each", outcomes)
	}
}

// What may become of a file with a flipped bit.
const (
	refused     = "refused at the start"
	failed      = "an error while timers fire"
	setAside    = "a timer set aside"
	asScheduled = "all as scheduled"
	late        = "a timer not found in time"
)

// flippable makes a file with timers, half of which are due at noon, and returns the
// commands by their keys and what is in the file.
func flippable(t *testing.T, path string) (map[timer.Key]timer.ScheduleTimer, []byte) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	commands := make(map[timer.Key]timer.ScheduleTimer)
	for i := range flipTimer {
		c := schedule(timer.ServiceCallID(fmt.Sprintf("0197f5a0-0000-7000-8000-%012d", i)))
		c.TenantID = timer.TenantID(fmt.Sprint("tenant-", i%5))
		c.CommandID, c.CorrelationID, c.Data = fmt.Sprint("command-", i), fmt.Sprint("request-", i), fmt.Sprintf(`{"attempt":%d}`, i)
		c.DueAt = noon.Add(time.Duration(i-flipTimer/2+1) * time.Millisecond)
		commands[c.Key] = c
		if _, err := s.Schedule(t.Context(), noon, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return commands, whole
}

// fireFlipped opens a file and fires what is due at noon. The error is about what must
// not be.
func fireFlipped(ctx context.Context, path string, commands map[timer.Key]timer.ScheduleTimer) (outcome string, err error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		return refused, nil //nolint:nilerr // as it may be
	}
	defer func() { _ = s.Close() }()
	fired := make(map[timer.Key]bool)
	for range flipTries {
		var entries []timer.Entry
		failure := s.Update(ctx, func(tx timer.Tx) (err error) {
			entries, err = tx.Reach(ctx, noon, 50, nil)
			return err
		})
		switch {
		case errors.Is(failure, timer.ErrFatal):
			return failed, nil
		case failure != nil:
			outcome = failed
			continue
		}
		for _, e := range entries {
			got := timer.ScheduleTimer{Key: e.Key, Version: e.Version, DueAt: e.DueAt, CorrelationID: e.CorrelationID, Data: e.Data}
			switch diff := cmp.Diff(commands[e.Key], got); {
			case diff != "":
				return "", fmt.Errorf("fired another timer than was scheduled (-want +got):\n%s", diff)
			case e.DueAt.After(noon), fired[e.Key]:
				return "", fmt.Errorf("%s fired early, or again", e.Key)
			}
			fired[e.Key] = true
		}
	}
	damaged, err := s.Damaged(ctx, 0, 0)
	switch {
	case err != nil:
		return failed, nil //nolint:nilerr // as it may be
	case len(fired) == flipTimer/2:
		return asScheduled, nil
	case len(damaged) > 0 && len(fired)+len(damaged) == flipTimer/2:
		return setAside, nil
	case outcome == "":
		outcome = late
	}
	return outcome, nil
}
