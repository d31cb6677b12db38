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

// A shelf is a store of timers that wait, whose commits take their time.
type shelf struct {
	timer.Reader
	commit time.Duration
	fails  error
	slow   time.Duration // what a count takes when it has counted
	look   time.Duration // what a Get takes

	looking, most atomic.Int64 // calls of Get at work, now and at most

	mu     sync.Mutex
	timers map[timer.Key]bool
	counts int
}

func (s *shelf) schedule(key timer.Key) timer.Outcome {
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

func (s *shelf) remove(key timer.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.timers, key)
}

func (s *shelf) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.timers)
}

func (s *shelf) Get(_ context.Context, key timer.Key) (timer.Entry, error) {
	now := s.looking.Add(1)
	defer s.looking.Add(-1)
	s.most.Store(max(s.most.Load(), now))
	time.Sleep(s.look)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.timers[key] {
		return timer.Entry{}, timer.ErrNotFound
	}
	return timer.Entry{Key: key, State: timer.Scheduled}, s.fails
}

func (s *shelf) Counts(ctx context.Context, _ timer.TenantID) (timer.Counts, error) {
	s.mu.Lock()
	s.counts++
	n, err := len(s.timers), s.fails
	s.mu.Unlock()
	time.Sleep(s.slow)
	if err == nil {
		err = ctx.Err()
	}
	return timer.Counts{Scheduled: int64(n), Reached: 1000}, err
}

func call(i int) timer.Key {
	return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(strings.Repeat("x", i+1))}
}

// send has a command accepted and applied, and returns what it is over else.
func send(t *testing.T, k *quota.Keeper, s *shelf, key timer.Key) *quota.Over {
	g, over, err := k.Admit(t.Context(), s, key)
	if err != nil {
		t.Errorf("Admit: %v", err)
	}
	if over == nil && err == nil {
		g.Done(s.schedule(key))
	}
	return over
}

func TestLiveTimersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 3, Over: quota.DeadLetter}), quota.Options{})
		if _, ok := k.Take("acme"); ok {
			t.Error("nobody has counted yet")
		}
		for i := range 3 {
			if over := send(t, k, s, call(i)); over != nil {
				t.Errorf("%d wait, but: %+v", i, over)
			}
		}
		over := send(t, k, s, call(3))
		if over == nil || over.Policy != quota.DeadLetter || !strings.HasPrefix(over.Detail, "live_timers: ") || !strings.Contains(over.Detail, "acme") {
			t.Errorf("the fourth: %+v", over)
		}
		if over := send(t, k, s, call(1)); over != nil {
			t.Errorf("one that waits can't be moved: %+v", over)
		}
		s.remove(call(0))
		k.Fewer("acme")
		if over := send(t, k, s, call(4)); over != nil {
			t.Errorf("after a cancel: %+v", over)
		}
		s.remove(call(1))
		k.Allowance(time.Now())
		k.Fired(time.Now(), []timer.DueTimeReached{{Key: call(1)}})
		if over := send(t, k, s, call(5)); over != nil {
			t.Errorf("after a timer fired: %+v", over)
		}
		if over := send(t, k, s, call(6)); over == nil {
			t.Error("a fourth waits")
		}
		s.remove(call(2)) // by another instance
		time.Sleep(time.Second)
		if over := send(t, k, s, call(6)); over != nil {
			t.Errorf("a second after another instance fired one: %+v", over)
		}
	})
}

// TestTimersOfTimesWithoutALimitCount has a limit that is lifted, and is back.
func TestTimersOfTimesWithoutALimitCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		limited := of(quota.Limits{Live: 3, Over: quota.DeadLetter})
		k := keeper(t, limited, quota.Options{})
		send(t, k, s, call(0))
		for i, book := range []quota.Book{of(quota.Limits{}), limited} {
			if err := k.Use(book); err != nil {
				t.Fatal(err)
			}
			for j := range 2 - i {
				send(t, k, s, call(1+j))
			}
		}
		if over := send(t, k, s, call(7)); over == nil {
			t.Errorf("%d wait, of 3", s.len())
		}
	})
}

// TestFloodOverAQuotaLeavesConnections counts how many look at a key at once.
func TestFloodOverAQuotaLeavesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 1, Over: quota.DeadLetter}), quota.Options{})
		send(t, k, s, call(0))
		s.look = time.Millisecond
		var flood sync.WaitGroup
		for i := range 200 {
			flood.Go(func() {
				if over := send(t, k, s, call(1+i)); over == nil {
					t.Error("another one waits")
				}
			})
		}
		flood.Wait()
		if most := s.most.Load(); most < 1 || most > 4 {
			t.Errorf("%d looked at once, want a few", most)
		}
	})
}

func TestFewTimersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 1000}), quota.Options{})
		for i := range 900 {
			send(t, k, s, call(i))
			time.Sleep(time.Second)
		}
		if s.counts != 1 {
			t.Errorf("counted %d times", s.counts)
		}
		for range 5000 { // the tenth part of what waits fires and is scheduled anew
			i := 800 + s.counts%100
			s.remove(call(i))
			k.Fewer("acme")
			if over := send(t, k, s, call(i)); over != nil {
				t.Fatalf("refused: %+v", over)
			}
		}
		if s.counts > 100 {
			t.Errorf("counted %d times for 5000 commands", s.counts)
		}
	})
}

func TestOthersTimersAreCountedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 100}), quota.Options{Instances: func() int { return 2 }})
		send(t, k, s, call(0))
		for i := range 99 { // by another instance
			s.schedule(call(1 + i))
		}
		time.Sleep(10 * time.Second)
		if over := send(t, k, s, call(100)); over == nil {
			t.Error("accepted more than may wait")
		}
		s.remove(call(0))
		time.Sleep(time.Second)
		if over := send(t, k, s, call(100)); over != nil {
			t.Errorf("refused: %+v", over)
		}
	})
}

// TestInstancesTogetherKeepTheLimit has all commands come at once, to whichever
// instance. A few may come on top, for which several saw the last places.
func TestInstancesTogetherKeepTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const instances, limit, commands = 3, 20, 90
		s := &shelf{commit: 2 * time.Millisecond, slow: 100 * time.Microsecond}
		var work sync.WaitGroup
		for n := range instances {
			k := keeper(t, of(quota.Limits{Live: limit}), quota.Options{Instances: func() int { return instances }})
			for i := range commands / instances {
				work.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond / 2)
					send(t, k, s, call(i*instances+n))
				})
			}
		}
		work.Wait()
		if got := s.len(); got < limit || got > limit+2*instances {
			t.Errorf("%d timers wait, want %d to %d", got, limit, limit+2*instances)
		}
	})
}

// TestManyAtOnceNeitherTooManyNorTooFew has commands on their way while timers
// are counted, again and again.
func TestManyAtOnceNeitherTooManyNorTooFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, commands = 50, 80
		s := &shelf{commit: 3 * time.Millisecond}
		k := keeper(t, of(quota.Limits{Live: limit}), quota.Options{})
		for round := range 30 {
			var work sync.WaitGroup
			var refused atomic.Int64
			for i := range commands {
				work.Go(func() {
					time.Sleep(time.Duration(i%7) * time.Millisecond)
					if send(t, k, s, call(round*7%commands+i)) != nil {
						refused.Add(1)
					}
				})
			}
			work.Wait()
			if got := s.len(); got != limit {
				t.Fatalf("round %d: %d wait, want %d; %d refused", round, got, limit, refused.Load())
			}
			for i := range commands / 3 {
				s.remove(call(round*7%commands + i*3))
			}
			k.Fewer("acme")
		}
	})
}

// TestNobodyIsRefusedForCommandsOnTheirWay has as many timers on their way as
// may wait, which turn out to be none.
func TestNobodyIsRefusedForCommandsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{commit: time.Second}
		k := keeper(t, of(quota.Limits{Live: 3, Over: quota.DeadLetter}), quota.Options{})
		send(t, k, s, call(0))
		var work sync.WaitGroup
		for range 10 {
			work.Go(func() {
				if over := send(t, k, s, call(0)); over != nil {
					t.Errorf("refused: %+v", over)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		if over := send(t, k, s, call(1)); over != nil {
			t.Errorf("refused, though one waits: %+v", over)
		}
		work.Wait()
	})
}

// whileCounting has a command admitted, and calls meanwhile while the timers are
// being counted for it.
func whileCounting(t *testing.T, k *quota.Keeper, s *shelf, key timer.Key, meanwhile func()) *quota.Over {
	g, ok := k.Take(key.TenantID)
	if !ok {
		t.Fatal("refused")
	}
	g.Failed() // so they must be counted
	s.slow = time.Second
	over := make(chan *quota.Over)
	go func() { over <- send(t, k, s, key) }()
	synctest.Wait()
	meanwhile()
	return <-over
}

func TestCommandsThatAreDoneWhileTimersAreCountedCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 6}), quota.Options{})
		send(t, k, s, call(0))
		var grants []quota.Grant
		for i := range 3 {
			g, _ := k.Take("acme")
			s.schedule(call(1 + i))
			grants = append(grants, g)
		}
		if over := whileCounting(t, k, s, call(5), func() {
			for _, g := range grants {
				g.Done(timer.DidSchedule)
			}
		}); over != nil {
			t.Errorf("refused, though four wait: %+v", over)
		}
	})
}

func TestWhatFailsWhileTimersAreCountedIsCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 3}), quota.Options{})
		send(t, k, s, call(0))
		g, _ := k.Take("acme")
		if over := whileCounting(t, k, s, call(5), func() {
			s.schedule(call(1))
			s.schedule(call(2)) // by another instance
			g.Failed()
		}); over == nil {
			t.Error("four wait, three may")
		}
	})
}

func TestWhatFailedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		k := keeper(t, of(quota.Limits{Live: 2}), quota.Options{})
		for i := range 5 {
			g, over, err := k.Admit(t.Context(), s, call(i))
			if over != nil || err != nil {
				break
			}
			s.schedule(call(i)) // but the connection broke before it said so
			g.Failed()
		}
		if got := s.len(); got != 2 {
			t.Errorf("%d wait, want 2", got)
		}
	})
}

func TestAdmitReturnsWhatTheStoreSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		k := keeper(t, of(quota.Limits{Live: 1}), quota.Options{})
		s.fails = errors.New("the disk is gone")
		if _, over, err := k.Admit(t.Context(), s, call(0)); !errors.Is(err, s.fails) || over != nil {
			t.Errorf("count: %v, %v", over, err)
		}
		s.fails = nil
		send(t, k, s, call(0))
		send(t, k, s, call(1))
		s.fails = errors.New("the disk is gone")
		if _, over, err := k.Admit(t.Context(), s, call(0)); !errors.Is(err, s.fails) || over != nil {
			t.Errorf("get: %v, %v", over, err)
		}
		s.fails = nil
		s.commit = time.Hour
		s.remove(call(0))
		k.Fewer("acme")
		go send(t, k, s, call(0))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, over, err := k.Admit(ctx, s, call(2)); !errors.Is(err, context.DeadlineExceeded) || over != nil {
			t.Errorf("while one is on its way: %v, %v", over, err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestOneCountIsEnough has timers fire all the time while they are counted.
func TestOneCountIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{slow: time.Second}
		k := keeper(t, of(quota.Limits{Live: 1}), quota.Options{})
		send(t, k, s, call(0))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var firing sync.WaitGroup
		firing.Go(func() {
			for ctx.Err() == nil {
				k.Fewer("acme")
				time.Sleep(time.Millisecond)
			}
		})
		defer firing.Wait()
		defer cancel()
		if _, over, err := k.Admit(ctx, s, call(1)); over == nil || err != nil {
			t.Errorf("over %+v, %v; want refused", over, err)
		}
	})
}
