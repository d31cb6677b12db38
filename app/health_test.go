package app_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/timer"
)

// A sickStore has a check that finds something, or hangs.
type sickStore struct {
	app.Store
	found atomic.Pointer[string]
	hangs atomic.Pointer[chan struct{}]
}

func (s *sickStore) Check(ctx context.Context) error {
	if c := s.hangs.Load(); c != nil {
		<-*c
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if text := s.found.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// TestChecksSayWhatIsWrong breaks one thing after the other.
func TestChecksSayWhatIsWrong(t *testing.T) {
	onBrokers(t, func(b *bench) {
		var fails atomic.Bool
		var ahead atomic.Int64
		s := &sickStore{Store: &fault.Store{Full: b.store, Decide: while(&fails)}}
		a := b.app(s, app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })})
		// wants has exactly these parts red, each with its reason.
		wants := func(when string, want map[string]string) {
			b.Helper()
			began := time.Now()
			checks := a.Checks(b.Context())
			if took := time.Since(began); took > time.Second {
				b.Errorf("%s: the checks took %v", when, took)
			}
			parts := make(map[string]bool)
			for _, c := range checks {
				parts[c.Part] = true
				reason, red := want[c.Part]
				if red != c.Red || !strings.Contains(c.Reason, reason) || c.Red && c.Advice == "" {
					b.Errorf("%s: %+v, want %q", when, c, reason)
				}
			}
			if len(parts) != 8 || len(checks) != 8 {
				b.Errorf("%s: %d checks of %d parts, want 8", when, len(checks), len(parts))
			}
		}
		wants("before it runs", map[string]string{"owner": "", "intake": "", "poller": ""})
		b.run(a)
		wants("at rest", nil)

		full := "the file system is full"
		s.found.Store(&full)
		wants("with a store that finds something", map[string]string{"store": full})
		s.found.Store(nil)
		for range 2 { // the second does not wait behind the first
			hang := make(chan struct{})
			s.hangs.Store(&hang)
			wants("with a store that hangs", map[string]string{"store": "no answer within 1s"})
			s.hangs.Store(nil)
			close(hang)
			synctest.Wait()
		}
		wants("with a store that answers again", nil)

		ahead.Store(int64(time.Hour))
		time.Sleep(6 * time.Second)
		wants("with a clock that jumped", map[string]string{"clock": "jumped forward"})
		time.Sleep(10 * time.Second) // it is believed then, since nothing contradicts it
		wants("with a clock that is believed", nil)

		fails.Store(true)
		b.schedule("call-1", time.Now().Add(time.Hour))
		time.Sleep(10 * time.Second)
		wants("with a store that fails", map[string]string{"intake": "the database fails", "poller": "the last poll failed"})
		fails.Store(false)
		time.Sleep(time.Minute)
		wants("with a store that works again", nil)
	})
}

// TestConcurrentChecksShareAnAnswer has a page, a probe and a scrape ask at once, of which the
// first gives up before the store answers.
func TestConcurrentChecksShareAnAnswer(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := &sickStore{Store: b.store}
		a := b.app(s, app.Options{})
		b.handle("", app.OnDueOptions{})(a.Timers())
		b.run(a)
		hang := make(chan struct{})
		s.hangs.Store(&hang)
		gone, giveUp := context.WithCancel(b.Context())
		var asking sync.WaitGroup
		asking.Go(func() { a.Checks(gone) })
		synctest.Wait()
		for range 3 {
			asking.Go(func() {
				began := time.Now()
				for _, c := range a.Checks(b.Context()) {
					if c.Red || time.Since(began) > 500*time.Millisecond {
						b.Errorf("after %v: %+v", time.Since(began), c)
					}
				}
			})
		}
		synctest.Wait()
		giveUp()
		time.Sleep(500 * time.Millisecond)
		close(hang)
		asking.Wait()
	})
}

// TestDestinationThatIsDeniedIsNamed has a topic whose events the broker denies, and then takes.
func TestDestinationThatIsDeniedIsNamed(t *testing.T) {
	onBrokers(t, func(b *bench) {
		var denied atomic.Bool
		denied.Store(true)
		topic := b.broker.Routing().EventsOf("acme")
		b.broker = &denyingBroker{b.broker, func(to string) bool { return denied.Load() && strings.HasPrefix(to, topic+" ") }}
		a, _ := b.serve(app.Options{})
		b.schedule("call-1", time.Now().Add(time.Minute))
		b.schedule("call-2", time.Now().Add(time.Hour))
		wants := func(after time.Duration, want ...string) {
			b.Helper()
			time.Sleep(after)
			synctest.Wait()
			c := b.check(a, "forwarder")
			for _, part := range want {
				if c.Red || c.Advice == "" || !strings.Contains(c.Reason, part) {
					b.Errorf("%+v, want %q", c, part)
				}
			}
			if want == nil && c.Reason != "" {
				b.Errorf("%+v, want nothing", c)
			}
		}
		wants(time.Minute + time.Second) // it may pass
		wants(time.Minute, "takes no events", topic, "1 waits", "permission denied")
		wants(time.Hour, "2 wait")
		denied.Store(false)
		wants(time.Minute)
	})
}

// A rightBroker knows the right time.
type rightBroker struct{ broker.Broker }

func (rightBroker) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// TestClockThatIsBehindRefusesNothing starts a service whose clock is more than a day behind
// that of the broker, and of producers. Their commands come into effect when someone has set
// the clock.
func TestClockThatIsBehindRefusesNothing(t *testing.T) {
	onBrokers(t, func(b *bench) {
		var behind atomic.Int64
		behind.Store(int64(25 * time.Hour))
		b.broker = rightBroker{b.broker}
		a, _ := b.serve(app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) })})
		reports := func(want bool) {
			b.Helper()
			if c := b.check(a, "clock"); c.Red != want || want != strings.Contains(c.Reason, "is behind") {
				b.Errorf("behind by %v: %+v", time.Duration(behind.Load()), c)
			}
		}
		reports(true)
		b.schedule("call", time.Now().Add(time.Second))
		b.quietFor(time.Minute)
		behind.Store(0)
		if got := b.fired(2 * time.Minute); got != "call" {
			b.Errorf("fired %q", got)
		}
		reports(false)
	})
}

// TestEventsThatFailAreAReason has a handler that fails for an hour, one event of which
// it says that no attempt can help, and events that no handler wants. An operator sees all,
// and whose events they are.
func TestEventsThatFailAreAReason(t *testing.T) {
	inBubble(t, func(b *bench) {
		var healed atomic.Bool
		a, stop := b.serve(app.Options{}, func(timers *app.Timers) {
			timers.OnDue("order-", func(_ context.Context, e timer.DueTimeReached) error {
				switch {
				case healed.Load():
					return nil
				case e.ServiceCallID == "order-2":
					return timer.Invalid(timer.ReasonBadField, "no such order")
				}
				return errors.New("no such column")
			}, app.OnDueOptions{MinDelay: 4 * time.Second, MaxDelay: 5 * time.Minute})
		})
		timers := a.Timers()
		schedule := func(id string) { must(b, timers.Schedule(b.Context(), in(id, 0))) }
		wants := func(after time.Duration, want ...string) {
			b.Helper()
			time.Sleep(after)
			synctest.Wait()
			got := b.check(a, "forwarder")
			for _, part := range want {
				if unclaimed := strings.HasPrefix(got.Reason, "events wait,"); got.Red != unclaimed || !strings.Contains(got.Reason, part) {
					b.Errorf("%+v, want %q", got, part)
				}
			}
			if want == nil && got.Reason != "" {
				b.Errorf("%+v, want nothing", got)
			}
		}
		schedule("order-1")
		wants(5 * time.Minute)
		wants(10*time.Minute, "1 events have failed", "order-1: no such column")
		schedule("order-2")
		time.Sleep(time.Minute)
		parked, err := timers.Parked(b.Context(), "", 0, 10)
		if err != nil || len(parked) != 1 {
			b.Fatalf("parked %v, %v", parked, err)
		}
		if c, err := timers.Counts(b.Context(), "acme"); err != nil || c.Reached != 2 || c.Failing != 1 || c.Parked != 1 {
			b.Errorf("counts %+v, %v", c, err)
		}
		if c, err := timers.Counts(b.Context(), "other"); err != nil || c != (app.Counts{}) {
			b.Errorf("counts of another tenant %+v, %v", c, err)
		}
		healed.Store(true)
		wants(6*time.Minute, "order-2", "no such order")
		if n, err := timers.Retry(b.Context(), parked[0].Seq); n != 1 || err != nil {
			b.Errorf("retried %d, %v", n, err)
		}
		wants(time.Minute)
		for _, id := range []string{"invoice-1", "invoice-2", "x"} {
			schedule(id)
		}
		wants(time.Minute, "2 invoice-…, 1 x…")
		if c := b.check(a, "broker"); c.Red || !strings.Contains(c.Reason, "there is none") {
			b.Errorf("the check of the broker: %+v", c)
		}
		stop()
		b.serve(app.Options{}, b.handle("invoice-", app.OnDueOptions{})) // a program that wants them
		time.Sleep(time.Second)
		if s := b.stats(); len(b.due) != 2 || s.Outbox != 1 || s.Parked != 0 {
			b.Errorf("%d handled after the start, %+v", len(b.due), s)
		}
	})
}
