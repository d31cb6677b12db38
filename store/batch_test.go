package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestBatchIsAStore runs the contract through group commit.
func TestBatchIsAStore(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		s := open(t, sqlite.Options{Durability: sqlite.Relaxed})
		return struct {
			*store.Batch
			timer.Reader
			timer.Operator
			timer.Recoverer
			outbox.Table
			storetest.Database
		}{store.NewBatch(s, store.BatchOptions{}), s, s, s, s, s}
	})
}

func open(t testing.TB, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), opt)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commitTime is what a commit of a slow store takes.
const commitTime = 10 * time.Second

// A slow store takes its time for a commit, and remembers what was committed. The
// outcome of a command is its timestamp. Commands of the service call "bad" are
// refused.
type slow struct {
	timer.Store
	writer  chan struct{} // holds one; in a bubble a mutex would stop the time
	commits [][]timer.ServiceCallID
	before  func(ctx context.Context, calls []timer.ServiceCallID) error // called in each commit; may be nil
}

func newSlow(before func(ctx context.Context, calls []timer.ServiceCallID) error) *slow {
	return &slow{writer: make(chan struct{}, 1), before: before}
}

func (s *slow) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	s.writer <- struct{}{} // one at a time, as in a database
	defer func() { <-s.writer }()
	var calls []timer.ServiceCallID
	var results []timer.Result
	for _, c := range commands {
		r := timer.Result{Outcome: timer.Outcome(c.TimestampMS)}
		if c.ServiceCallID == "bad" {
			r = timer.Result{Err: timer.Invalid(timer.ReasonRefused, "bad")}
		}
		calls, results = append(calls, c.ServiceCallID), append(results, r)
	}
	if s.before != nil {
		if err := s.before(ctx, calls); err != nil {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(commitTime):
	}
	s.commits = append(s.commits, calls)
	return results, nil
}

// sizes are how many commands each commit had.
func (s *slow) sizes() (n []int) {
	for _, calls := range s.commits {
		n = append(n, len(calls))
	}
	return n
}

func command(call timer.ServiceCallID, n int64) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: n, CommandID: "command"},
	}
}

func TestCommandAloneIsNotDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(nil)
		began := time.Now()
		results, err := store.NewBatch(inner, store.BatchOptions{}).Schedule(t.Context(), began, command("a", 1), command("b", 2))
		if diff := cmp.Diff([]timer.Result{{Outcome: 1}, {Outcome: 2}}, results); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if took := time.Since(began); took != commitTime {
			t.Errorf("took %v, want one commit", took)
		}
	})
}

// TestWaitingCommandsShareACommit has each caller check its own outcomes.
func TestWaitingCommandsShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(nil)
		b := store.NewBatch(inner, store.BatchOptions{Limit: 100})
		began := time.Now()
		var callers sync.WaitGroup
		for i := range 201 {
			callers.Go(func() {
				n := int64(i%100 + 1)
				results, err := b.Schedule(t.Context(), began, command("a", n), command("b", n+1))
				if diff := cmp.Diff([]timer.Result{{Outcome: timer.Outcome(n)}, {Outcome: timer.Outcome(n + 1)}}, results); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
			synctest.Wait() // they come one after the other, while the first commits
		}
		callers.Wait()
		if diff := cmp.Diff([]int{2, 100, 100, 100, 100}, inner.sizes()); diff != "" {
			t.Errorf("commands of each commit (-want +got):\n%s", diff)
		}
		if took := time.Since(began); took != 5*commitTime {
			t.Errorf("took %v, want 5 commits", took)
		}
	})
}

func TestCallLargerThanTheLimitIsOneCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(nil)
		b := store.NewBatch(inner, store.BatchOptions{Limit: 2})
		_, err := b.Schedule(t.Context(), time.Now(), command("a", 1), command("b", 1), command("c", 1))
		must(t, err)
		if diff := cmp.Diff([]int{3}, inner.sizes()); diff != "" {
			t.Errorf("commands of each commit (-want +got):\n%s", diff)
		}
	})
}

// TestCommitAfterALargeOneWaits lets commands come one a millisecond, without and
// after a commit of many.
func TestCommitAfterALargeOneWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(nil)
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		send := func(n int) {
			for range n {
				running.Go(func() {
					if _, err := b.Schedule(t.Context(), time.Now(), command("a", 1)); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
		}
		send(1)
		send(31)
		running.Wait()
		send(1) // a small commit is followed at once
		send(32)
		time.Sleep(2*commitTime + time.Millisecond)
		for range 3 {
			send(1)
			time.Sleep(900 * time.Microsecond)
		}
		running.Wait()
		if diff := cmp.Diff([]int{1, 31, 1, 32, 3}, inner.sizes()); diff != "" {
			t.Errorf("commands of each commit (-want +got):\n%s", diff)
		}
	})
}

// TestCommitEndsSoonAfterAStop cancels the caller that began a commit, and one that waits, while
// the database does not answer: both return at once, the commit ends within a second.
func TestCommitEndsSoonAfterAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := store.NewBatch(newSlow(func(ctx context.Context, _ []timer.ServiceCallID) error {
			<-ctx.Done()
			if took := time.Since(began); took != time.Second {
				t.Errorf("the commit ended after %v", took)
			}
			return ctx.Err()
		}), store.BatchOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				if _, err := b.Schedule(ctx, began, command("a", 1)); !errors.Is(err, context.Canceled) || time.Now() != began {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
			synctest.Wait()
		}
		cancel()
		running.Wait()
		time.Sleep(time.Minute)
	})
}

var errBusy = errors.New("busy")

func TestErrorThatMayPassIsThatOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(func(_ context.Context, calls []timer.ServiceCallID) error {
			if len(calls) > 1 {
				return errBusy
			}
			return nil
		})
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		for i := range 5 {
			running.Go(func() {
				_, err := b.Schedule(t.Context(), time.Now(), command("a", 1))
				if failed := errors.Is(err, errBusy); failed != (i > 0) {
					t.Errorf("caller %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		running.Wait()
	})
}

// TestCallerGivesUp while it waits: it returns at once, and the others go on,
// also if it was to lead the next commit.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(nil)
		b := store.NewBatch(inner, store.BatchOptions{})
		began := time.Now()
		var running sync.WaitGroup
		call := func(ctx context.Context, call timer.ServiceCallID, want error, after time.Duration) {
			running.Go(func() {
				if _, err := b.Schedule(ctx, began, command(call, 1)); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", call, err, want)
				}
				if took := time.Since(began); took != after {
					t.Errorf("%s: took %v, want %v", call, took, after)
				}
			})
			synctest.Wait()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call(t.Context(), "first", nil, commitTime)
		call(impatient, "gives up", context.DeadlineExceeded, time.Second) // the next leader
		call(t.Context(), "second", nil, 2*commitTime)
		running.Wait()
		if diff := cmp.Diff([][]timer.ServiceCallID{{"first"}, {"second"}}, inner.commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
	})
}

// TestCallerGivesUpAsItLeads ends a context that two callers share at the moment
// when one of them is to commit: it gets a result, or an error.
func TestCallerGivesUpAsItLeads(t *testing.T) {
	t.Parallel()
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			inner := newSlow(nil)
			b := store.NewBatch(inner, store.BatchOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			call := func(ctx context.Context, after func()) {
				running.Go(func() {
					defer after()
					if results, err := b.Schedule(ctx, time.Now(), command("a", 1)); len(results) == 0 && err == nil {
						t.Error("no result and no error")
					}
				})
				synctest.Wait()
			}
			call(t.Context(), cancel)
			call(ctx, func() {}) // the next leader
			call(ctx, func() {})
			running.Wait()
			call(t.Context(), func() {})
			running.Wait()
		})
	}
}

// TestCommitOutlivesItsCaller ends the context of the caller that began a commit, in which there is
// another one too. It returns at once: the commit may wait for a transaction of that very caller.
func TestCommitOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(context.Context, time.Duration) (context.Context, context.CancelFunc){
		"a deadline": context.WithTimeout,
		"a stop": func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(after, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				inner := newSlow(func(ctx context.Context, _ []timer.ServiceCallID) error {
					if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Hour {
						t.Error("a commit without a limit")
					}
					return nil
				})
				b := store.NewBatch(inner, store.BatchOptions{})
				began := time.Now()
				ctx, cancel := ends(t.Context(), commitTime+time.Second)
				defer cancel()
				var running sync.WaitGroup
				call := func(ctx context.Context, after time.Duration) {
					running.Go(func() {
						if _, err := b.Schedule(ctx, began, command("a", 1)); !errors.Is(err, ctx.Err()) || time.Since(began) != after {
							t.Errorf("after %v, want %v: %v", time.Since(began), after, err)
						}
					})
					synctest.Wait()
				}
				call(t.Context(), commitTime)
				call(ctx, commitTime+time.Second) // begins the second commit
				call(t.Context(), 2*commitTime)
				running.Wait()
				if diff := cmp.Diff([]int{1, 2}, inner.sizes()); diff != "" {
					t.Errorf("commands of each commit (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPanicOfACommitLetsTheOthersGoOn has the store panic in a commit of two.
func TestPanicOfACommitLetsTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(func(_ context.Context, calls []timer.ServiceCallID) error {
			if len(calls) == 2 {
				panic("broken")
			}
			return nil
		})
		b := store.NewBatch(inner, store.BatchOptions{})
		var failures atomic.Int32
		var running sync.WaitGroup
		for range 3 { // the first commits alone, the others together
			running.Go(func() {
				if _, err := b.Schedule(t.Context(), time.Now(), command("a", 1)); err != nil {
					failures.Add(1)
				}
			})
			synctest.Wait()
		}
		running.Wait()
		if failures.Load() != 2 {
			t.Errorf("%d callers failed, want 2", failures.Load())
		}
		if _, err := b.Schedule(t.Context(), time.Now(), command("a", 1)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestLockedCommandFailsAlone has a commit of several that fails as long as another
// transaction holds a lock for one of them.
func TestLockedCommandFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(func(_ context.Context, calls []timer.ServiceCallID) error {
			if slices.Contains(calls, "locked") {
				return timer.ErrLocked
			}
			return nil
		})
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		for _, call := range []timer.ServiceCallID{"first", "a", "locked", "b"} {
			running.Go(func() {
				_, err := b.Schedule(t.Context(), time.Now(), command(call, 1))
				if failed := errors.Is(err, timer.ErrLocked); failed != (call == "locked") {
					t.Errorf("%s: %v", call, err)
				}
			})
			synctest.Wait()
		}
		running.Wait()
	})
}

// TestFewLockedCommandsWaitAtOnce has many that wait for locks, for as long as a commit
// takes, and one that needs a connection too.
func TestFewLockedCommandsWaitAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int64
		inner := newSlow(func(context.Context, []timer.ServiceCallID) error {
			defer at.Add(-1)
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(commitTime)
			return timer.ErrLocked
		})
		inner.writer = make(chan struct{}, 100) // several at once, as in a server
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		for i := range 20 {
			schedule := b.Schedule
			if i%2 == 0 {
				schedule = store.Alone{Batch: b}.Schedule
			}
			running.Go(func() {
				if _, err := schedule(t.Context(), time.Now(), command("locked", 1)); !errors.Is(err, timer.ErrLocked) {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if n := most.Load(); n > 3 {
			t.Errorf("%d transactions at once, want one that is shared and two that are not", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			running.Go(func() {
				_, _ = store.Alone{Batch: b}.Schedule(ctx, time.Now(), command("locked", 1))
			})
		}
		synctest.Wait()
		cancel()
		running.Wait()
	})
}
