package outbox_test

import (
	"context"
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
		wait(time.Hour)
		if diff := cmp.Diff(map[string][]string{"a": {"id-1"}, "c": {"id-3"}}, p.ids); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		l.mu.Lock()
		l.deferred[2].Err = nil
		l.mu.Unlock()
		wait(time.Minute)
		if left := l.left(); len(left) > 0 || len(p.ids["b"]) != 1 {
			t.Errorf("left %v, published %v", left, p.ids)
		}
	})
}

// TestOnlyRefusalsParkARow has a topic that fails more often than a row may be
// refused, and then a broker that refuses the row less often than that.
func TestOnlyRefusalsParkARow(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
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
		l.add(f, "a")
		wait(time.Hour)
		if len(p.ids["a"]) != 1 || len(l.parked) != 0 {
			t.Errorf("published %v after %d tries, parked %v", p.ids["a"], tries, l.parked)
		}
	})
}

// TestTableIsReadWhenARowIsDueAgain counts the reads of an hour in which the events of two
// handlers fail, of which one has longer delays than the other.
func TestTableIsReadWhenARowIsDueAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var tries atomic.Int64
		fail := func(context.Context, outbox.Row) (bool, error) {
			tries.Add(1)
			return false, errors.New("not now")
		}
		f := forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{{Handle: fail}, {Prefix: "often", MaxDelay: 20 * time.Second, Handle: fail}}})
		l.add(f, "acme/order", "acme/often")
		wait(time.Hour)
		if reads, most := l.calls("deferred", "next_retry"), 5*int(tries.Load()); reads > most {
			t.Errorf("%d reads for %d tries, want at most %d", reads, tries.Load(), most)
		}
	})
}

// TestTableIsReadWhenATopicIsTriedAgain counts the reads of an hour in which a topic takes nothing,
// with one event or many, of which another topic works again after half an hour.
func TestTableIsReadWhenATopicIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, events := range []int{1, 500} {
		synctest.Test(t, func(t *testing.T) {
			l, tries := new(table), 0
			began, last := time.Now(), time.Time{}
			p := &model{publish: func(m broker.Message) error {
				if m.Topic == "b" && time.Since(began) > 30*time.Minute {
					return nil
				}
				if !last.Equal(time.Now()) { // a try has several events
					tries++
				}
				last = time.Now()
				return errTopic
			}}
			f := forward(t, l, p, outbox.Options{})
			l.append("b")
			for range events {
				l.append("a")
			}
			f.Appended(events + 1)
			wait(time.Hour)
			if reads, most := l.calls("deferred", "next_retry"), 5*tries; reads > most || len(p.ids["b"]) != 1 {
				t.Errorf("%d events: %d reads for %d tries, want at most %d; published %v", events, reads, tries, most, p.ids)
			}
		})
	}
}

// TestRowIsDueEarlierThanItWas has a row that is to wait for hours. Then its time is changed in the
// table, or the clock is.
func TestRowIsDueEarlierThanItWas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		within time.Duration
		change func(l *table, f *outbox.Forwarder, ahead *atomic.Int64)
	}{
		"by another program": {time.Minute, func(l *table, _ *outbox.Forwarder, _ *atomic.Int64) { _ = l.Hasten(context.Background(), time.Now()) }},
		"by the clock":       {time.Minute, func(_ *table, _ *outbox.Forwarder, ahead *atomic.Int64) { ahead.Store(int64(6 * time.Hour)) }},
		"by the clock, of which it is notified": {time.Second, func(_ *table, f *outbox.Forwarder, ahead *atomic.Int64) {
			ahead.Store(int64(6 * time.Hour))
			f.Wake()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				l, h := new(table), newHandled()
				f := outbox.New(outbox.Outbox{Table: l}, new(model), payload, timer.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }),
					slog.New(slog.DiscardHandler), outbox.Options{Handlers: []outbox.Handler{{MinDelay: 3 * time.Hour, MaxDelay: 3 * time.Hour, Handle: func(_ context.Context, row outbox.Row) (bool, error) {
						if h.note(row) == 0 {
							return false, errors.New("not now")
						}
						return false, nil
					}}}})
				start(t, f)
				l.add(f, "acme/order")
				time.Sleep(10 * time.Minute)
				tt.change(l, f, &ahead)
				wait(tt.within)
				if calls := h.of(1); len(calls) != 2 {
					t.Errorf("handled after %v, want a second time within %v of the change", calls, tt.within)
				}
			})
		})
	}
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
				l, p := new(table), &model{publish: failIf(errors.New("not now"), func(broker.Message) bool { return away.Load() })}
				run := func() (stop func()) {
					return start(t, outbox.New(outbox.Outbox{Table: l}, p, payload, clock, slog.New(slog.DiscardHandler), outbox.Options{}))
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
