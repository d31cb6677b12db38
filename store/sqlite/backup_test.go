package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A writer schedules timers in pairs, one pair a transaction, as fast as it can.
type writer struct {
	tenant timer.TenantID
	acked  atomic.Int64 // pairs
}

func (w *writer) key(pair int64, half string) timer.Key {
	return timer.Key{TenantID: w.tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("call-%08d-%s", pair, half))}
}

func (w *writer) run(ctx context.Context, s *sqlite.Store) error {
	for pair := int64(1); ctx.Err() == nil; pair++ {
		var both []timer.ScheduleTimer
		for _, half := range []string{"a", "b"} {
			both = append(both, timer.ScheduleTimer{
				Key: w.key(pair, half), Version: timer.Version{TimestampMS: pair, CommandID: "command"},
				DueAt: noon.Add(time.Duration(pair) * time.Millisecond),
			})
		}
		if _, err := s.Schedule(context.WithoutCancel(ctx), noon, both...); err != nil {
			return err
		}
		w.acked.Store(pair)
	}
	return nil
}

// TestBackupHoldsAMoment makes backups while others write at full speed. Each has
// everything that was committed before it began, whole transactions, and of each
// writer no transaction without the one before it.
func TestBackupHoldsAMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, relaxed)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	writers := []*writer{{tenant: "acme"}, {tenant: "beta"}, {tenant: "zoe"}}
	for _, w := range writers {
		running.Go(func() {
			if err := w.run(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	defer func() {
		stop()
		running.Wait()
		must(t, s.Close())
	}()

	const wanted = 10 // backups during which every writer had an ack
	for n, overlapped := 0, 0; overlapped < wanted && !t.Failed(); n++ {
		before := make([]int64, len(writers))
		for i, w := range writers {
			before[i] = w.acked.Load()
		}
		copied := filepath.Join(t.TempDir(), "copy.db")
		must(t, sqlite.Backup(t.Context(), path, copied))
		all := true
		for i, w := range writers {
			all = all && w.acked.Load() > before[i]
		}
		if all {
			overlapped++
		}
		checkCopy(t, copied, writers, before)
	}
}

// checkCopy opens a copy as a service would.
func checkCopy(t *testing.T, path string, writers []*writer, before []int64) {
	t.Helper()
	c, err := sqlite.Inspect(t.Context(), path)
	must(t, err)
	if files, _ := filepath.Glob(path + "*"); len(files) != 1 {
		t.Errorf("looking at it left %v", files)
	}
	s := openAt(t, path, sqlite.Options{})
	st, err := s.Stats(t.Context(), "")
	must(t, err)
	if st.Counts != c.Counts || st.Outbox != c.Outbox || st.Parked != 0 || c.Parked != 0 || c.SchemaVersion != sqlite.SchemaVersion {
		t.Errorf("the copy holds %+v, and says %+v", c, st)
	}
	for i, w := range writers {
		counts, err := s.Stats(t.Context(), w.tenant)
		must(t, err)
		pairs := counts.Scheduled / 2
		if pairs < before[i] {
			t.Errorf("%s: %d pairs are in the copy, %d were acked before it began", w.tenant, pairs, before[i])
		}
		if pairs == 0 {
			continue
		}
		// As many as there are, and the last one is there: none is missing.
		for _, half := range []string{"a", "b"} {
			if _, err := s.Get(t.Context(), w.key(pairs, half)); err != nil {
				t.Errorf("%s: the last of %d pairs is torn: %v", w.tenant, pairs, err)
			}
		}
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ours := filepath.Join(dir, "timers.db")
	must(t, openAt(t, ours, sqlite.Options{}).Close())
	other := filepath.Join(dir, "other.db")
	exec(t, handle(t, sqlite.DSN(other)), `CREATE TABLE something (id INTEGER)`)
	for _, tt := range []struct{ name, from, to, want string }{
		{"a database that is not there", filepath.Join(dir, "absent.db"), "x", "absent.db: has the service run here?"},
		{"no database", file("text", strings.Repeat("text", 2000)), "x", "file is not a database"},
		{"another database", other, "x", "it is not a database of this service"},
		{"a file that is there", ours, file("full", "full"), "full exists and is not empty"},
		{"a folder that is not there", ours, filepath.Join("absent", "x"), "absent/x: no such file or directory"},
	} {
		to := tt.to
		if to == "x" {
			to = filepath.Join(dir, tt.name)
		}
		if err := sqlite.Backup(t.Context(), tt.from, to); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "full")); err != nil || string(text) != "full" {
		t.Errorf("the file that was there holds %q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sqlite.Backup(ctx, ours, filepath.Join(dir, "late")); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	newer := filepath.Join(dir, "newer.db")
	must(t, sqlite.Backup(t.Context(), ours, newer))
	exec(t, handle(t, sqlite.DSN(newer)), `INSERT INTO timer_schema (version_id, is_applied) VALUES (17, 1)`)
	if err := sqlite.Backup(t.Context(), newer, filepath.Join(dir, "never")); !errors.Is(err, timer.ErrFatal) {
		t.Errorf("of a newer schema: %v", err)
	}
}

func TestInspectFindsDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	scheduled(t, s, calls(500)...)
	must(t, s.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	for what, spoil := range map[string]func(b []byte) []byte{
		"a file cut short":   func(b []byte) []byte { return b[:len(b)-4096] },
		"pages overwritten":  func(b []byte) []byte { copy(b[len(b)-3*4096:], strings.Repeat("\xff", 4096)); return b },
		"a key in the index": func(b []byte) []byte { return []byte(strings.Replace(string(b), "call-00250", "call-00999", 1)) },
		"nothing at all":     func([]byte) []byte { return nil },
	} {
		spoiled := filepath.Join(t.TempDir(), "copy.db")
		must(t, os.WriteFile(spoiled, spoil(append([]byte(nil), whole...)), 0o600))
		if c, err := sqlite.Inspect(t.Context(), spoiled); err == nil || what != "nothing at all" && !errors.Is(err, timer.ErrFatal) {
			t.Errorf("%s: %+v, %v, want an error", what, c, err)
		}
	}
}

func TestHoldKeepsServicesAway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	if _, err := sqlite.Hold(path); err == nil || !strings.Contains(err.Error(), "has the service run here?") {
		t.Errorf("nothing to hold: %v", err)
	}
	s := openAt(t, path, sqlite.Options{})
	if _, err := sqlite.Hold(path); err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("with a service: %v, want its pid", err)
	}
	must(t, s.Close())
	held, err := sqlite.Hold(path)
	must(t, err)
	if s, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
		s.Close()
		t.Error("a service started on a file that is held")
	}
	must(t, held.Unlock())
	openAt(t, path, sqlite.Options{})
}

// TestABackupIsTheSameDatabaseAsItWas restores a copy that was made before the last command: it
// has the identity by which the broker knows the database, and the numbers of that time.
func TestABackupIsTheSameDatabaseAsItWas(t *testing.T) {
	t.Parallel()
	path, to := filepath.Join(t.TempDir(), "timers.db"), filepath.Join(t.TempDir(), "copy.db")
	s := openAt(t, path, relaxed)
	advance := func(to int64) {
		must(t, s.Advance(t.Context(), timer.Number{Log: "log", Kind: timer.LogCommands, Number: to}))
	}
	advance(1)
	scheduled(t, s, "call-1")
	must(t, sqlite.Backup(t.Context(), path, to))
	advance(2)
	scheduled(t, s, "call-2")
	var ids []string
	for i, store := range []*sqlite.Store{openAt(t, to, sqlite.Options{}), s} {
		id, _, err := store.Identity(t.Context())
		must(t, err)
		ids = append(ids, id)
		k, err := store.Known(t.Context())
		if err != nil || len(k.Numbers) != 1 || k.Numbers[0].Number != int64(i+1) || k.Empty {
			t.Errorf("known %+v, %v, want number %d", k, err, i+1)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the copy is %s, the database %s", ids[0], ids[1])
	}
}
