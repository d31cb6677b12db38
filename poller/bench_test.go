package poller_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	realClock = timer.ClockFunc(time.Now)
	quiet     = slog.New(slog.DiscardHandler)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A bench is a store in a bubble, and a poller on it.
type bench struct {
	*testing.T
	store  *sqlite.Store
	began  time.Time
	ahead  atomic.Int64 // of the clock of the poller
	decide fault.Decide // which calls of the store fail; nil: none
	fired  chan timer.DueTimeReached
	polls  atomic.Int64
	log    logbuf.Buffer
}

func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		test(&bench{T: t, store: s, began: time.Now(), fired: make(chan timer.DueTimeReached, 1000)})
	})
}

// Now is the time of the poller, which a test may set wrong.
func (b *bench) Now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

// set sets the clock of the poller: it is ahead then.
func (b *bench) set(ahead time.Duration) { b.ahead.Store(int64(ahead)) }

// schedule stores a timer that is due some time after the begin.
func (b *bench) schedule(call string, after time.Duration) {
	b.Helper()
	b.put(b.command("acme", call, after))
}

// due stores n timers of a tenant, the first due some time after the begin, one after each pause.
func (b *bench) due(tenant timer.TenantID, n int, first, pause time.Duration) {
	b.Helper()
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		commands[i] = b.command(tenant, fmt.Sprintf("%06d", i), first+time.Duration(i)*pause)
	}
	b.put(commands...)
}

func (b *bench) command(tenant timer.TenantID, call string, after time.Duration) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: 1, CommandID: "c-" + call}, DueAt: b.began.Add(after),
	}
}

func (b *bench) put(commands ...timer.ScheduleTimer) {
	b.Helper()
	_, err := b.store.Schedule(b.Context(), time.Now(), commands...)
	must(b, err)
}

// poll runs a poller until the bubble ends.
func (b *bench) poll(opt poller.Options) *poller.Poller {
	b.Helper()
	reached, polled := opt.Reached, opt.Polled
	opt.Reached = func(events []timer.DueTimeReached) {
		for _, e := range events {
			b.fired <- e
		}
		if reached != nil {
			reached(events)
		}
	}
	opt.Polled = func(took time.Duration, err error) {
		b.polls.Add(1)
		if polled != nil {
			polled(took, err)
		}
	}
	began := time.Now()
	if opt.Elapsed == nil { // the monotonic clock of a machine
		opt.Elapsed = func() time.Duration { return time.Since(began) }
	}
	p := poller.New(&fault.Store{Full: b.store, Decide: b.decide}, b, slog.New(slog.NewTextHandler(&b.log, nil)), opt)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Errorf("Run: %v", err)
		}
	})
	return p
}

// failing returns a decision that has calls fail while so is true, of some operations or of all.
func failing(so func() bool, ops ...string) fault.Decide {
	return func(op string) fault.Kind {
		if (len(ops) == 0 || slices.Contains(ops, op)) && so() {
			return fault.Before
		}
		return fault.None
	}
}

// after lets time go by, and returns how many timers have fired that were not looked at.
func (b *bench) after(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	return len(b.fired)
}

// fires waits for the next timers to fire, and checks when, from the begin on.
func (b *bench) fires(at ...time.Duration) {
	b.Helper()
	for _, want := range at {
		e := <-b.fired
		if got := time.Since(b.began); got != want {
			b.Errorf("%s fired after %v, want %v", e.Key, got, want)
		}
		if e.ReachedAt.Before(e.DueAt) {
			b.Errorf("%s was reached at %v, due at %v", e.Key, e.ReachedAt, e.DueAt)
		}
	}
}

// holds checks that nothing fires for a minute.
func (b *bench) holds(why string) {
	b.Helper()
	if n := b.after(time.Minute); n != 0 {
		b.Errorf("%d fired %s", n, why)
	}
}
