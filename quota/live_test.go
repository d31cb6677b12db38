package quota_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A fakeStore is a store of timers that wait, whose commits take their time.
type fakeStore struct {
	timer.Reader
	commit time.Duration
	fails  error
	slow   time.Duration // of a count, when it has counted
	lookup time.Duration // of a Get

	lookups, most atomic.Int64 // calls of Get at work: now, and the most at a time

	mu     sync.Mutex
	timers map[timer.Key]bool
	counts int
}

func (s *fakeStore) schedule(key timer.Key) timer.Outcome {
	time.Sleep(s.commit / 2)
	s.mu.Lock()
	did := timer.DidSchedule
	if s.timers[key] {
		did = timer.DidReschedule
	}
	if s.timers == nil {
		s.timers = make(map[timer.Key]bool)
	}
	s.timers[key] = true
	s.mu.Unlock()
	time.Sleep(s.commit / 2)
	return did
}

func (s *fakeStore) remove(key timer.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.timers, key)
}

func (s *fakeStore) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.timers)
}

func (s *fakeStore) Get(_ context.Context, key timer.Key) (timer.Entry, error) {
	now := s.lookups.Add(1)
	defer s.lookups.Add(-1)
	s.most.Store(max(s.most.Load(), now))
	time.Sleep(s.lookup)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.timers[key] {
		return timer.Entry{}, timer.ErrNotFound
	}
	return timer.Entry{Key: key, State: timer.Scheduled}, s.fails
}

func (s *fakeStore) Stats(ctx context.Context, _ timer.TenantID) (timer.Stats, error) {
	s.mu.Lock()
	s.counts++
	n, err := len(s.timers), s.fails
	s.mu.Unlock()
	time.Sleep(s.slow)
	if err == nil {
		err = ctx.Err()
	}
	return timer.Stats{Counts: timer.Counts{Scheduled: int64(n), Reached: 1000}}, err
}

func call(i int) timer.Key {
	return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(strings.Repeat("x", i+1))}
}

// send has a command accepted and applied, or returns the limit that it exceeds.
func send(t *testing.T, k *quota.Limiter, s *fakeStore, key timer.Key) *quota.Exceeded {
	exceeded, err := k.Allow(t.Context(), s, quota.Again, command(key))
	if err != nil {
		t.Errorf("Allow: %v", err)
	}
	if exceeded == nil && err == nil {
		k.Done([]timer.ScheduleTimer{command(key)}, []timer.Result{{Outcome: s.schedule(key)}})
	}
	return exceeded
}

func TestLiveTimersAreLimited(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 3, Policy: quota.DeadLetter}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		if take(k, "acme") {
			t.Error("not counted yet")
		}
		for i := range 3 {
			if exceeded := send(t, k, s, call(i)); exceeded != nil {
				t.Errorf("%d wait, but: %+v", i, exceeded)
			}
		}
		exceeded := send(t, k, s, call(3))
		if exceeded == nil || exceeded.Policy != quota.DeadLetter || !strings.HasPrefix(exceeded.Detail, "live_timers: ") || !strings.Contains(exceeded.Detail, "acme") {
			t.Errorf("the fourth: %+v", exceeded)
		}
		if exceeded := send(t, k, s, call(1)); exceeded != nil {
			t.Errorf("one that waits can't be moved: %+v", exceeded)
		}
		s.remove(call(0))
		k.Decremented("acme")
		if exceeded := send(t, k, s, call(4)); exceeded != nil {
			t.Errorf("after a cancel: %+v", exceeded)
		}
		s.remove(call(1))
		k.Allowance(time.Now())
		k.Fired(time.Now(), []timer.DueTimeReached{{Key: call(1)}})
		if exceeded := send(t, k, s, call(5)); exceeded != nil {
			t.Errorf("after a timer fired: %+v", exceeded)
		}
		if exceeded := send(t, k, s, call(6)); exceeded == nil {
			t.Error("a fourth waits")
		}
		s.remove(call(2)) // by another instance
		time.Sleep(time.Second)
		if exceeded := send(t, k, s, call(6)); exceeded != nil {
			t.Errorf("a second after another instance fired one: %+v", exceeded)
		}
	})
}

// TestTimersOfTimesWithoutALimitCount has a limit that is lifted, and is back.
func TestTimersOfTimesWithoutALimitCount(t *testing.T) {
	limited := of(quota.Limits{Live: 3, Policy: quota.DeadLetter})
	inBubble(t, limited, quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		send(t, k, s, call(0))
		for i, config := range []quota.Config{of(quota.Limits{}), limited} {
			must(t, k.Use(config))
			for j := range 2 - i {
				send(t, k, s, call(1+j))
			}
		}
		if exceeded := send(t, k, s, call(7)); exceeded == nil {
			t.Errorf("%d wait, of 3", s.len())
		}
	})
}

// TestFloodOverAQuotaLeavesConnections counts how many look-ups of keys there are at once.
func TestFloodOverAQuotaLeavesConnections(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 1, Policy: quota.DeadLetter}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		send(t, k, s, call(0))
		s.lookup = time.Millisecond
		var flood sync.WaitGroup
		for i := range 200 {
			flood.Go(func() {
				if exceeded := send(t, k, s, call(1+i)); exceeded == nil {
					t.Error("another one waits")
				}
			})
		}
		flood.Wait()
		if most := s.most.Load(); most < 1 || most > 4 {
			t.Errorf("%d look-ups at once, want a few", most)
		}
	})
}

func TestFewTimersAreCountedOnce(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 1000}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		for i := range 900 {
			send(t, k, s, call(i))
			time.Sleep(time.Second)
		}
		if s.counts != 1 {
			t.Errorf("counted %d times", s.counts)
		}
		for range 5000 { // a tenth of the waiting timers fires and is scheduled anew
			i := 800 + s.counts%100
			s.remove(call(i))
			k.Decremented("acme")
			if exceeded := send(t, k, s, call(i)); exceeded != nil {
				t.Fatalf("refused: %+v", exceeded)
			}
		}
		if s.counts > 100 {
			t.Errorf("counted %d times for 5000 commands", s.counts)
		}
	})
}

// TestInstancesTogetherKeepTheLimit has all commands come at once, to whichever
// instance. Those may come on top that are on their way when the last one is accepted.
func TestInstancesTogetherKeepTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const instances, limit, commands, underWay = 3, 20, 90, 3 * 5
		s := &fakeStore{commit: 2 * time.Millisecond, slow: 100 * time.Microsecond}
		var work sync.WaitGroup
		for n := range instances {
			k := limiter(t, of(quota.Limits{Live: limit}), quota.Options{Instances: func() int { return instances }})
			for i := range commands / instances {
				work.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond / 2)
					send(t, k, s, call(i*instances+n))
				})
			}
		}
		work.Wait()
		if got := s.len(); got < limit || got > limit+underWay {
			t.Errorf("%d timers wait, want %d to %d", got, limit, limit+underWay)
		}
	})
}

// TestManyAtOnceNeitherTooManyNorTooFew has commands on their way while timers are
// counted, again and again. Refused ones come again.
func TestManyAtOnceNeitherTooManyNorTooFew(t *testing.T) {
	const limit, commands, underWay = 50, 80, 80 / 7 * 3 // at once, during a commit
	inBubble(t, of(quota.Limits{Live: limit}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		s.commit = 3 * time.Millisecond
		for round := range 30 {
			var work sync.WaitGroup
			for i := range commands {
				work.Go(func() {
					time.Sleep(time.Duration(i%7) * time.Millisecond)
					send(t, k, s, call(round*7%commands+i))
				})
			}
			work.Wait()
			for i := range commands {
				send(t, k, s, call(round*7%commands+i))
			}
			if got := s.len(); got < limit || got > limit+underWay {
				t.Fatalf("round %d: %d wait, want %d, and at most %d more", round, got, limit, underWay)
			}
			for i := range commands / 3 {
				s.remove(call(round*7%commands + i*3))
			}
			k.Decremented("acme")
		}
	})
}

// TestCommandsAreOnlyDelayedForThoseOnTheirWay has as many timers on their way as may
// wait, which turn out to be none: no command becomes a dead letter for that.
func TestCommandsAreOnlyDelayedForThoseOnTheirWay(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 3, Policy: quota.DeadLetter}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		s.commit = time.Second
		send(t, k, s, call(0))
		var work sync.WaitGroup
		for range 10 {
			work.Go(func() {
				if exceeded := send(t, k, s, call(0)); exceeded != nil {
					t.Errorf("refused: %+v", exceeded)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		if exceeded := send(t, k, s, call(1)); exceeded == nil || exceeded.Policy != quota.Delay || exceeded.Rule != quota.DeadLetter {
			t.Errorf("%+v, want it delayed, and the rule dead_letter", exceeded)
		}
		work.Wait()
		if exceeded := send(t, k, s, call(1)); exceeded != nil {
			t.Errorf("refused, though one waits: %+v", exceeded)
		}
	})
}

func TestWhatFailedIsCounted(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 2}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		for i := range 5 {
			exceeded, err := k.Allow(t.Context(), s, quota.Again, command(call(i)))
			if exceeded != nil || err != nil {
				break
			}
			s.schedule(call(i)) // but the connection broke before it said so
			k.Done([]timer.ScheduleTimer{command(call(i))}, nil)
		}
		if got := s.len(); got != 2 {
			t.Errorf("%d wait, want 2", got)
		}
	})
}

func TestAllowReturnsWhatTheStoreSays(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 1}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		s.fails = errors.New("the disk is gone")
		if exceeded, err := k.Allow(t.Context(), s, quota.Again, command(call(0))); !errors.Is(err, s.fails) || exceeded != nil {
			t.Errorf("count: %v, %v", exceeded, err)
		}
		s.fails = nil
		send(t, k, s, call(0))
		send(t, k, s, call(1))
		s.fails = errors.New("the disk is gone")
		if exceeded, err := k.Allow(t.Context(), s, quota.Again, command(call(0))); !errors.Is(err, s.fails) || exceeded != nil {
			t.Errorf("get: %v, %v", exceeded, err)
		}
	})
}

// TestMessagesOfManyTimersAtTheLimit has messages accepted or refused as a whole.
func TestMessagesOfManyTimersAtTheLimit(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 10}), quota.Options{}, func(t *testing.T, k *quota.Limiter, s *fakeStore) {
		sendAll := func(from, to int) *quota.Exceeded {
			var commands []timer.ScheduleTimer
			for i := from; i < to; i++ {
				commands = append(commands, command(call(i)))
			}
			exceeded, err := k.Allow(t.Context(), s, quota.Again, commands...)
			must(t, err)
			if exceeded == nil {
				var results []timer.Result
				for _, c := range commands {
					results = append(results, timer.Result{Outcome: s.schedule(c.Key)})
				}
				k.Done(commands, results)
			}
			return exceeded
		}
		for i, step := range []struct {
			from, to int
			want     quota.Policy
			live     int
		}{
			{0, 6, "", 6},
			{6, 11, quota.Delay, 6}, // 11 of 10
			{6, 10, "", 10},
			{10, 11, quota.Delay, 10},
			{0, 10, "", 10}, // all are moved
			{5, 11, quota.Delay, 10},
			{20, 31, quota.DeadLetter, 10}, // more than may ever wait
		} {
			exceeded := sendAll(step.from, step.to)
			if got := s.len(); got != step.live {
				t.Errorf("step %d: %d wait, want %d", i, got, step.live)
			}
			switch {
			case (exceeded == nil) != (step.want == ""):
				t.Errorf("step %d: %+v, want %q", i, exceeded, step.want)
			case exceeded != nil && (exceeded.Policy != step.want || exceeded.Delay < 5*time.Second || exceeded.Delay > 25*time.Second):
				t.Errorf("step %d: %+v, want %q in 5 s to 25 s", i, exceeded, step.want)
			}
		}
		s.remove(call(0))
		k.Decremented("acme")
		if exceeded := sendAll(5, 11); exceeded != nil {
			t.Errorf("one is new, and one may be: %+v", exceeded)
		}
	})
}

// TestAClockThatIsSetBackKeepsNoTenantAtItsLimit, whose timers have fired in another instance.
func TestAClockThatIsSetBackKeepsNoTenantAtItsLimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l, err := quota.New(quota.Config{Default: quota.Limits{Live: 1}}, timer.ClockFunc(func() time.Time { return now }), quota.Options{Instances: func() int { return 2 }})
	must(t, err)
	var s fakeStore
	first, second := timer.Key{TenantID: "acme", ServiceCallID: "1"}, timer.Key{TenantID: "acme", ServiceCallID: "2"}
	s.schedule(first)
	exceeds := func() bool {
		t.Helper()
		exceeded, err := l.Allow(t.Context(), &s, quota.Fresh, timer.ScheduleTimer{Key: second})
		must(t, err)
		return exceeded != nil
	}
	if !exceeds() {
		t.Fatal("a second timer is allowed")
	}
	s.remove(first)
	now = now.Add(-time.Hour)
	if exceeds() {
		t.Error("the tenant counts as at its limit, although it has no timer")
	}
}

// TestAClockThatIsSetBackProlongsNoDelay of commands over the accept rate.
func TestAClockThatIsSetBackProlongsNoDelay(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l, err := quota.New(quota.Config{Default: quota.Limits{Accept: quota.Rate{PerSecond: 1}}}, timer.ClockFunc(func() time.Time { return now }), quota.Options{})
	must(t, err)
	for _, back := range []time.Duration{0, 0, time.Hour, 0} {
		now = now.Add(-back)
		exceeded, err := l.Allow(t.Context(), new(fakeStore), quota.Fresh, timer.ScheduleTimer{Key: timer.Key{TenantID: "acme"}})
		must(t, err)
		if exceeded != nil && exceeded.Delay > 5*time.Minute {
			t.Errorf("a delay of %v", exceeded.Delay)
		}
	}
}
