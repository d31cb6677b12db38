package outbox_test

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestDamagedRowIsDeferredAlone until its headers can be read again.
func TestDamagedRowIsDeferredAlone(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), new(model)
		f := forward(t, l, p, outbox.Options{})
		l.append("a", "b", "c")
		l.mu.Lock()
		l.rows[1].Err = errors.New("no JSON")
		l.mu.Unlock()
		f.Appended(3)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(map[string][]string{"a": {"id-1"}, "c": {"id-3"}}, p.ids); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		l.mu.Lock()
		l.deferred[2].Err = nil
		l.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := l.left(); len(left) > 0 || len(p.ids["b"]) != 1 {
			t.Errorf("left %v, published %v", left, p.ids)
		}
	})
}

// TestOnlyRefusalsParkARow has a topic that fails more often than a row may be
// refused, and then a broker that refuses the row less often than that.
func TestOnlyRefusalsParkARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), new(model)
		tries := 0
		p.publish = func(broker.Message) error {
			switch tries++; {
			case tries <= 6:
				return errTopic
			case tries <= 10:
				return broker.ErrRefused
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{})
		l.append("a")
		f.Appended(1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(p.ids["a"]) != 1 || len(l.parked) != 0 {
			t.Errorf("published %v after %d tries, parked %v", p.ids["a"], tries, l.parked)
		}
	})
}

// TestAClockThatIsSetBackHoldsNoEvent has rows that were deferred by a clock which was
// hours ahead, and is right again: while the forwarder runs, or before it starts.
func TestAClockThatIsSetBackHoldsNoEvent(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"while it runs": false, "before it starts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				ahead.Store(int64(6 * time.Hour))
				clock := timer.ClockFunc(func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) })
				var away atomic.Bool
				away.Store(true)
				l, p := new(table), &model{publish: func(broker.Message) error {
					if away.Load() {
						return errors.New("not now")
					}
					return nil
				}}
				run := func() (stop func()) {
					return start(t, outbox.New(outbox.Single(l), p, payload, clock, slog.New(slog.DiscardHandler), outbox.Options{}))
				}
				stop := run()
				l.append("a", "b")
				time.Sleep(time.Minute)
				if restart {
					stop()
				}
				ahead.Store(0)
				away.Store(false)
				if restart {
					run()
				}
				time.Sleep(time.Minute)
				if left := l.left(); len(left) > 0 {
					t.Errorf("rows %v wait a minute after the clock was set right", left)
				}
			})
		})
	}
}
