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
		b := store.NewBatch(s, s.Inbox(), 0)
		return struct {
			*store.Batch
			timer.Reader
			timer.Operator
			timer.Recoverer
			outbox.Table
			storetest.Database
		}{b, s, s, s, s, batchedInbox{s, b}}
	})
}

// A batchedInbox is a database whose messages are put into the inbox by group commit.
type batchedInbox struct {
	storetest.Database
	batch *store.Batch
}

func (b batchedInbox) Inbox() timer.Inbox {
	return putter{b.Database.Inbox(), b.batch}
}

type putter struct {
	timer.Inbox
	batch *store.Batch
}

func (p putter) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return p.batch.PutInbox(ctx, time.Now(), messages...)
}

var must = storetest.Must

func open(t testing.TB, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), opt)
	return storetest.Opened(t, s, err)
}

// commitTime is the duration of a commit of a slow store.
const commitTime = 10 * time.Second

// A slowStore takes its time for a commit, and remembers the committed commands. The
// outcome of a command is its timestamp.
type slowStore struct {
	timer.Store
	timer.Inbox
	*testing.T
	batch   *store.Batch // over it
	began   time.Time
	running sync.WaitGroup                                               // calls
	writer  chan struct{}                                                // holds as many as write at once; in a bubble a mutex would stop the time
	before  func(ctx context.Context, calls []timer.ServiceCallID) error // called in each commit; may be nil
	commits [][]timer.ServiceCallID
}

// onSlow runs a test on a slow store, in a bubble.
func onSlow(t *testing.T, test func(s *slowStore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{T: t, writer: make(chan struct{}, 1), began: time.Now()} // one at a time, as in a database
		s.batch = store.NewBatch(s, s, 0)
		test(s)
		s.running.Wait()
	})
}

func (s *slowStore) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	var calls []timer.ServiceCallID
	var results []timer.Result
	for _, c := range commands {
		calls, results = append(calls, c.ServiceCallID), append(results, timer.Result{Outcome: timer.Outcome(c.TimestampMS)})
	}
	return results, s.commit(ctx, calls)
}

// PutInbox commits messages by their ids.
func (s *slowStore) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	var ids []timer.ServiceCallID
	for _, m := range messages {
		ids = append(ids, timer.ServiceCallID(m.MessageID))
	}
	return s.commit(ctx, ids)
}

func (s *slowStore) commit(ctx context.Context, calls []timer.ServiceCallID) error {
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	if s.before != nil {
		if err := s.before(ctx, calls); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(commitTime):
	}
	s.commits = append(s.commits, calls)
	return nil
}

func command(call timer.ServiceCallID, n int64) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: n, CommandID: "command"},
	}
}

// call schedules a timer, which ends with an error after a time. It comes after the calls
// before it.
func (s *slowStore) call(ctx context.Context, call timer.ServiceCallID, want error, after time.Duration) {
	s.running.Go(func() {
		results, err := s.batch.Schedule(ctx, s.began, command(call, 1))
		if !errors.Is(err, want) || (err == nil) != (len(results) == 1) || time.Since(s.began) != after {
			s.Errorf("%s: %v, %v after %v, want %v after %v", call, results, err, time.Since(s.began), want, after)
		}
	})
	synctest.Wait()
}

// sizes checks how many commands each commit had.
func (s *slowStore) sizes(want ...int) {
	s.Helper()
	s.running.Wait()
	var got []int
	for _, calls := range s.commits {
		got = append(got, len(calls))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("commands of each commit (-want +got):\n%s", diff)
	}
}

// TestWaitingCommandsShareACommit has each caller check its own outcomes.
func TestWaitingCommandsShareACommit(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		for i := range 801 {
			s.running.Go(func() {
				var commands []timer.ScheduleTimer
				var want []timer.Result
				for n := i%100 + 1; len(want) < 10; n++ {
					commands, want = append(commands, command("a", int64(n))), append(want, timer.Result{Outcome: timer.Outcome(n)})
				}
				results, err := s.batch.Schedule(s.Context(), s.began, commands...)
				if diff := cmp.Diff(want, results); err != nil || diff != "" {
					s.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
			synctest.Wait() // they come one after the other, while the first commits
		}
		s.sizes(10, 2000, 2000, 2000, 2000)
		if took := time.Since(s.began); took != 5*commitTime {
			s.Errorf("took %v, want 5 commits", took)
		}
	})
}

// TestWaitingMessagesShareACommit puts messages into the inbox, of which some callers have
// several, and then fails a commit of them.
func TestWaitingMessagesShareACommit(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		put := func(want error, ids ...string) {
			var messages []timer.InboxMessage
			for _, id := range ids {
				messages = append(messages, timer.InboxMessage{MessageID: id})
			}
			s.running.Go(func() {
				if err := s.batch.PutInbox(s.Context(), time.Now(), messages...); !errors.Is(err, want) {
					s.Errorf("%v: %v, want %v", ids, err, want)
				}
			})
			synctest.Wait()
		}
		put(nil, "a")
		put(nil, "b", "c")
		put(nil, "d")
		s.sizes(1, 3)
		if diff := cmp.Diff([]timer.ServiceCallID{"b", "c", "d"}, s.commits[1]); diff != "" {
			s.Errorf("the second commit (-want +got):\n%s", diff)
		}
		full := errors.New("the disk is full")
		s.before = func(context.Context, []timer.ServiceCallID) error { return full }
		put(full, "e")
		put(full, "f")
	})
}

// TestTenantsShareCommits has an import of one tenant wait, in calls of 500, and then commands of
// two others: these are in the next commit.
func TestTenantsShareCommits(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		schedule := func(tenant timer.TenantID, n int) {
			s.running.Go(func() {
				c := command("a", 1)
				c.TenantID = tenant
				results, err := s.batch.Schedule(s.Context(), s.began, slices.Repeat([]timer.ScheduleTimer{c}, n)...)
				if took := time.Since(s.began); err != nil || len(results) != n || tenant != "big" && took >= 3*commitTime {
					s.Errorf("%s: %d results, %v after %v", tenant, len(results), err, took)
				}
			})
			synctest.Wait()
		}
		for range 9 {
			schedule("big", 500)
		}
		for range 2 {
			schedule("small", 1)
			schedule("tiny", 1)
		}
		s.sizes(500, 1504, 2000, 500)
	})
}

func TestCallLargerThanTheLimitIsOneCommit(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		_, err := s.batch.Schedule(s.Context(), time.Now(), slices.Repeat([]timer.ScheduleTimer{command("a", 1)}, 2001)...)
		must(s, err)
		s.sizes(2001)
	})
}

// precision is that of the tests that need one.
const precision = 3 * commitTime

// TestCommandsThatWaitShareTheCommitAfterThePrecision has commands come during a commit and after it.
func TestCommandsThatWaitShareTheCommitAfterThePrecision(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		s.batch = store.NewBatch(s, s, precision)
		s.call(s.Context(), "a", nil, commitTime)
		time.Sleep(commitTime / 2)
		s.call(s.Context(), "b", nil, precision+commitTime)
		time.Sleep(commitTime)
		s.call(s.Context(), "c", nil, precision+commitTime)
		s.sizes(1, 2)
		s.call(s.Context(), "d", nil, precision+2*commitTime) // nobody waited with it
	})
}

// TestACallerThatWaitsForEachCommandIsNotDelayed has calls follow each other without a pause.
func TestACallerThatWaitsForEachCommandIsNotDelayed(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		s.batch = store.NewBatch(s, s, precision)
		for range 100 {
			_, err := s.batch.Schedule(s.Context(), s.began, command("a", 1))
			must(s, err)
		}
		if took := time.Since(s.began); took != 100*commitTime {
			s.Errorf("100 calls took %v, want %v", took, 100*commitTime)
		}
	})
}

// TestCommitEndsSoonAfterAStop cancels the caller that began a commit, and one that waits, while
// the database does not answer: both return at once, the commit ends within a second.
func TestCommitEndsSoonAfterAStop(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		s.before = func(ctx context.Context, _ []timer.ServiceCallID) error {
			<-ctx.Done()
			if took := time.Since(s.began); took != time.Second {
				s.Errorf("the commit ended after %v", took)
			}
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(s.Context())
		s.call(ctx, "first", context.Canceled, 0)
		s.call(ctx, "second", context.Canceled, 0)
		cancel()
		s.running.Wait()
		time.Sleep(time.Minute)
	})
}

var errBusy = errors.New("busy")

func TestErrorThatMayPassIsThatOfAll(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		s.before = func(_ context.Context, calls []timer.ServiceCallID) error {
			if len(calls) > 1 {
				return errBusy
			}
			return nil
		}
		s.call(s.Context(), "first", nil, commitTime)
		for range 4 {
			s.call(s.Context(), "others", errBusy, commitTime)
		}
	})
}

// TestCallerGivesUp while it waits: it returns at once, and the others go on,
// also if it was to lead the next commit.
func TestCallerGivesUp(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		impatient, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		s.call(s.Context(), "first", nil, commitTime)
		s.call(impatient, "gives up", context.DeadlineExceeded, time.Second) // the next leader
		s.call(s.Context(), "second", nil, 2*commitTime)
		s.running.Wait()
		if diff := cmp.Diff([][]timer.ServiceCallID{{"first"}, {"second"}}, s.commits); diff != "" {
			s.Errorf("commits (-want +got):\n%s", diff)
		}
	})
}

// TestCallerGivesUpAsItLeads ends a context that two callers share at the moment
// when one of them is to commit: it gets a result, or an error.
func TestCallerGivesUpAsItLeads(t *testing.T) {
	t.Parallel()
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			b := store.NewBatch(&slowStore{T: t, writer: make(chan struct{}, 1)}, nil, 0)
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
	for name, ends := range map[string]func(context.Context, time.Duration) (context.Context, context.CancelFunc){
		"a deadline": context.WithTimeout,
		"a stop": func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(after, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			onSlow(t, func(s *slowStore) {
				s.before = func(ctx context.Context, _ []timer.ServiceCallID) error {
					if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Hour {
						s.Error("a commit without a limit")
					}
					return nil
				}
				ctx, cancel := ends(s.Context(), commitTime+time.Second)
				defer cancel()
				want := context.Canceled
				if name == "a deadline" {
					want = context.DeadlineExceeded
				}
				s.call(s.Context(), "first", nil, commitTime)
				s.call(ctx, "ends", want, commitTime+time.Second) // begins the second commit
				s.call(s.Context(), "meanwhile", nil, 2*commitTime)
				s.sizes(1, 2)
			})
		})
	}
}

// TestPanicOfACommitLetsTheOthersGoOn has the store panic in a commit of two.
func TestPanicOfACommitLetsTheOthersGoOn(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		s.before = func(_ context.Context, calls []timer.ServiceCallID) error {
			if len(calls) == 2 {
				panic("broken")
			}
			return nil
		}
		var failures atomic.Int32
		for range 3 { // the first commits alone, the others together
			s.running.Go(func() {
				if _, err := s.batch.Schedule(s.Context(), time.Now(), command("a", 1)); err != nil {
					failures.Add(1)
				}
			})
			synctest.Wait()
		}
		s.running.Wait()
		if failures.Load() != 2 {
			s.Errorf("%d callers failed, want 2", failures.Load())
		}
		s.call(s.Context(), "afterwards", nil, 2*commitTime)
	})
}
