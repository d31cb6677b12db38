package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A spoilingStore spoils the timers that it is given.
type spoilingStore struct {
	*sqlite.Store
	schedule func(n int, commands []timer.ScheduleTimer) error // called with the number of the call
	calls    int
}

func (s *spoilingStore) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	commands = slices.Clone(commands)
	s.calls++
	err := s.schedule(s.calls, commands)
	if errors.Is(err, timer.ErrInvalid) {
		results := make([]timer.Result, len(commands))
		results[1].Err = err
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Schedule(ctx, now, commands...)
}

// An import that fails says so, and so does the next one into the same store.
func TestImportThatFails(t *testing.T) {
	t.Parallel()
	const n = 2500
	file := export(t, many(n))
	ctx, cancel := context.WithCancel(t.Context())
	for want, schedule := range map[string]func(n int, commands []timer.ScheduleTimer) error{
		"the database does not hold the imported timers, but 2500 timers": func(_ int, commands []timer.ScheduleTimer) error {
			commands[0].CorrelationID = "other"
			return nil
		},
		"the disk is full: a part of the file may be in the database": func(n int, _ []timer.ScheduleTimer) error {
			if n == 3 {
				return errors.New("the disk is full")
			}
			return nil
		},
		"timer acme.call-001001: invalid: no such call: a part of the file may be in the database": func(n int, _ []timer.ScheduleTimer) error {
			if n == 2 {
				return timer.Invalid(timer.ReasonRefused, "no such call")
			}
			return nil
		},
		context.Canceled.Error() + ": a part of the file may be in the database": func(n int, _ []timer.ScheduleTimer) error {
			if n == 2 {
				cancel()
			}
			return nil
		},
	} {
		ctx := ctx
		if !strings.HasPrefix(want, context.Canceled.Error()) {
			ctx = t.Context()
		}
		to := &spoilingStore{Store: open(t, sqlite.Options{}), schedule: schedule}
		if _, err := importFile(ctx, to, strings.NewReader(file), noon, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := importFile(t.Context(), to, strings.NewReader(file), noon, nil); !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("%s: again: %v, want ErrNotEmpty", want, err)
		}
	}
}

// An importer's file may change, or its disk fail, after it was checked.
func TestImportOfAFileThatChanges(t *testing.T) {
	t.Parallel()
	first := export(t, many(1500))
	for want, second := range map[string]io.Reader{
		"line 1502: the checksum is":  strings.NewReader(strings.Replace(first, `"command-1200"`, `"another"`, 1)),
		"line 1003: the pipe broke":   io.MultiReader(strings.NewReader(first[:strings.Index(first, "call-001001")]), iotest.ErrReader(errors.New("the pipe broke"))),
		"line 2: the file ends here,": strings.NewReader(first[:strings.Index(first, "\n")+1]),
	} {
		to := open(t, sqlite.Options{})
		_, err := importFile(t.Context(), to, &changingFile{Reader: strings.NewReader(first), next: second}, noon, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A changingFile is another one when it is read again.
type changingFile struct {
	io.Reader
	next io.Reader
}

func (c *changingFile) Seek(int64, int) (int64, error) {
	c.Reader = c.next
	return 0, nil
}

// TestMoveThereAndBack takes timers from SQLite to PostgreSQL and back, and finds the
// same lines each time. What has fired does not fire again, and commands meet the
// timers that they would have met before.
func TestMoveThereAndBack(t *testing.T) {
	t.Parallel()
	there, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	must(t, err)
	t.Cleanup(func() { _ = there.Close() })
	from := open(t, sqlite.Options{})
	live(t, from)
	first := exportOf(t, from)
	if n := strings.Count(first, "\n"); n < 900 || !strings.Contains(first, `"reached":368,`) {
		t.Fatalf("%d lines prove too little:\n%s", n, first)
	}
	for _, to := range []movable{there, open(t, sqlite.Options{})} {
		if _, err := importFile(t.Context(), to, strings.NewReader(first), noon, nil); err != nil {
			t.Fatalf("%T: %v", to, err)
		}
		if got := exportOf(t, to); got != first {
			t.Errorf("%T holds\n%s\nwant\n%s", to, got, first)
		}
	}
	for _, to := range []movable{from, there} {
		var outcomes []timer.Outcome
		for _, call := range []timer.ServiceCallID{"a12", "a0-tombstone", "a48", "new"} {
			c := timer.ScheduleTimer{Key: timer.Key{TenantID: "A", ServiceCallID: call}, Version: timer.Version{TimestampMS: 50, CommandID: "again"}, DueAt: noon}
			results, err := to.Schedule(t.Context(), noon, c)
			must(t, err)
			outcomes = append(outcomes, results[0].Outcome)
		}
		if want := []timer.Outcome{timer.WasReached, timer.WasStale, timer.DidReschedule, timer.DidSchedule}; !slices.Equal(outcomes, want) {
			t.Errorf("%T: commands did %v, want %v", to, outcomes, want)
		}
		st, err := to.Stats(t.Context(), "")
		if err != nil || st.Outbox+st.Parked > 0 {
			t.Errorf("%T has events: %+v, %v", to, st, err)
		}
		if err := to.Update(t.Context(), func(tx timer.Tx) error {
			entries, err := tx.Reach(t.Context(), noon.Add(time.Hour), 2000, nil)
			if int64(len(entries)) != st.Scheduled {
				t.Errorf("%T: %d fire, want the %d that wait", to, len(entries), st.Scheduled)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A movable is a store that can be moved.
type movable interface {
	timer.Store
	store.Target
}

// live leaves traces of all that happens to timers. Names sort differently in most
// collations than byte by byte.
func live(t *testing.T, s *sqlite.Store) {
	t.Helper()
	var commands []timer.ScheduleTimer
	for i, tenant := range []timer.TenantID{"a", "A", "b", "B", "a-", "a_", "a0", "aA", "0"} {
		for n := range 100 {
			c := timer.ScheduleTimer{
				Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("%c%d", "a_.:-Z"[n%6], n))},
				Version: timer.Version{TimestampMS: int64(i), CommandID: fmt.Sprint("command-", n)},
				DueAt:   noon.Add(time.Duration(n%50) * time.Millisecond),
			}
			if n%3 == 0 {
				c.CorrelationID = fmt.Sprintf(`"\%d<`, n)
				c.Trace = timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b"}
			}
			commands = append(commands, c)
		}
	}
	_, err := s.Schedule(t.Context(), noon.Add(-time.Hour), commands...)
	must(t, err)
	for _, c := range commands[90:110] {
		_, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: c.Key, Version: timer.Version{TimestampMS: 100, CommandID: "cancel"}})
		must(t, err)
		c.ServiceCallID += "-tombstone"
		_, err = s.Cancel(t.Context(), noon, timer.CancelTimer{Key: c.Key, Version: timer.Version{TimestampMS: 1<<53 - 1, CommandID: "cancel"}})
		must(t, err)
	}
	must(t, s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(t.Context(), noon.Add(20*time.Millisecond), 400, nil)
		return err
	}))
}
