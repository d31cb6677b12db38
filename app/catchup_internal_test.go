package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

// A counting broker is there, and counts how often it was asked for its backlog.
type counting struct {
	broker.Broker
	outages int64 // so far
	asked   int
}

func (c *counting) Interruptions() (int64, error) { return c.outages, nil }

func (c *counting) CatchUp(context.Context, string) error { c.asked++; return nil }

// TestCatchesUpAfterEachReason has a broker that was away for a moment, polls that fail, and
// a process that was stopped between two polls, as by SIGSTOP.
func TestCatchesUpAfterEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(counting)
		c := &catchUp{
			broker: b, timeout: time.Second, pause: 5 * time.Second, log: slog.New(slog.DiscardHandler),
			store: func() int64 { return 0 },
		}
		for _, step := range []struct {
			what  string
			do    func()
			wants bool
		}{
			{"the start", func() {}, true},
			{"nothing happened", func() {}, false},
			{"the broker was away", func() { b.outages++ }, true},
			{"a pause of the poller", func() { time.Sleep(5 * time.Second) }, false},
			{"a pause that is too long", func() { time.Sleep(8 * time.Second) }, true},
			{"a poll", func() { c.polled(0, nil) }, false},
			{"a poll that failed", func() { c.polled(0, errors.New("away")) }, true},
			{"nothing happened since", func() {}, false},
		} {
			before := b.asked
			step.do()
			if !c.await(t.Context()) {
				t.Fatalf("%s: timers may not fire", step.what)
			}
			if got := b.asked > before; got != step.wants {
				t.Errorf("%s: caught up: %v, want %v", step.what, got, step.wants)
			}
		}
	})
}

// TestFailuresThatNeverEndHoldBackNothing has the store fail whenever the backlog
// is read.
func TestFailuresThatNeverEndHoldBackNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed int64
		c := &catchUp{
			broker: new(slow), timeout: 10 * time.Second, pause: 5 * time.Second, log: slog.New(slog.DiscardHandler),
			store: func() int64 { failed++; return failed },
		}
		began := time.Now()
		if !c.await(t.Context()) || time.Since(began) > 11*time.Second {
			t.Errorf("waited %v, want the timeout at most", time.Since(began))
		}
	})
}

// A slow broker takes its time to catch up.
type slow struct{ broker.Broker }

func (*slow) Interruptions() (int64, error) { return 0, nil }

func (*slow) CatchUp(context.Context, string) error { time.Sleep(300 * time.Millisecond); return nil }
