package store_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A spoiled store spoils what it is given.
type spoiled struct {
	*sqlite.Store
	schedule func(n int, commands []timer.ScheduleTimer) error // called with the number of the call
	calls    int
}

func (s *spoiled) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
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

// An import that does not end well leaves nothing, unless it has ended before.
func TestImportThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	const n = 2500
	file := export(t, many(n))
	forgets := &spoiled{Store: open(t, sqlite.Options{}), schedule: func(_ int, commands []timer.ScheduleTimer) error {
		commands[0].CorrelationID = "other"
		return nil
	}}
	if _, err := store.Import(t.Context(), forgets, strings.NewReader(file), noon, nil); err == nil || !strings.Contains(err.Error(), "the database does not hold the imported timers, but 2500 timers") {
		t.Errorf("a store that forgets: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for want, schedule := range map[string]func(n int, commands []timer.ScheduleTimer) error{
		"the disk is full": func(n int, _ []timer.ScheduleTimer) error {
			if n == 3 {
				return errors.New("the disk is full")
			}
			return nil
		},
		"timer acme.call-001001: invalid: no such call": func(n int, _ []timer.ScheduleTimer) error {
			if n == 2 {
				return timer.Invalid(timer.ReasonRefused, "no such call")
			}
			return nil
		},
		context.Canceled.Error(): func(n int, _ []timer.ScheduleTimer) error {
			if n == 2 {
				cancel()
			}
			return nil
		},
	} {
		ctx := ctx
		if want != context.Canceled.Error() {
			ctx = t.Context()
		}
		to := &spoiled{Store: open(t, sqlite.Options{}), schedule: schedule}
		removed := 0
		_, err := store.Import(ctx, to, strings.NewReader(file), noon, func(stage string, n int) {
			if stage == store.StageRemove {
				removed += n
			}
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if st, err := to.Stats(t.Context(), ""); err != nil || st != (timer.Stats{}) || removed%1000 != 0 || removed == 0 {
			t.Errorf("%s: %+v are left, %v; %d were removed", want, st, err, removed)
		}
		to.schedule = func(int, []timer.ScheduleTimer) error { return nil }
		if _, err := store.Import(t.Context(), to, strings.NewReader(file), noon, nil); err != nil {
			t.Errorf("%s: again: %v", want, err)
		}
	}
}

// An importer's file may change, or its disk fail, after it was checked.
func TestImportOfAFileThatChangesLeavesNothing(t *testing.T) {
	t.Parallel()
	first := export(t, many(1500))
	for want, second := range map[string]io.Reader{
		"line 1502: the checksum is":  strings.NewReader(strings.Replace(first, `"command-1200"`, `"another"`, 1)),
		"line 1003: the pipe broke":   io.MultiReader(strings.NewReader(first[:strings.Index(first, "call-001001")]), iotest.ErrReader(errors.New("the pipe broke"))),
		"line 2: the file ends here,": strings.NewReader(first[:strings.Index(first, "\n")+1]),
	} {
		to := open(t, sqlite.Options{})
		_, err := store.Import(t.Context(), to, &changing{Reader: strings.NewReader(first), next: second}, noon, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if st, err := to.Stats(t.Context(), ""); err != nil || st != (timer.Stats{}) {
			t.Errorf("%s: %+v are left, %v", want, st, err)
		}
	}
}

// A changing file is another one when it is read again.
type changing struct {
	io.Reader
	next io.Reader
}

func (c *changing) Seek(int64, int) (int64, error) {
	c.Reader = c.next
	return 0, nil
}
