package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAHandlerHasItsEventLater has a handler fail, and then put the event off three times: once
// while the forwarder stops, so that the next start has it too soon if it may.
func TestAHandlerHasItsEventLater(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		stopping := make(chan struct{})
		opt := outbox.Options{Grace: time.Minute, Handlers: []outbox.Handler{{Attempts: 2, MinDelay: time.Second, Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			switch h.note(row) + 1 {
			case 1:
				return false, errors.New("no")
			case 2:
				return false, timer.Later(time.Hour)
			case 3:
				return false, fmt.Errorf("the mail server is full: %w", timer.Later(time.Hour+time.Nanosecond))
			case 4:
				close(stopping)
				<-ctx.Done() // of the grace
				return false, timer.Later(time.Hour)
			}
			return false, nil
		}}}}
		f, stop := forwardUntil(t, l, p, opt)
		l.add(f, "a")
		<-stopping
		if s := f.Status(); s.Failing != 0 || s.Failed != nil || s.Fails {
			t.Errorf("%+v: want no failure", s)
		}
		stop()
		f, stop = forwardUntil(t, l, p, opt)
		if err := f.Drain(t.Context()); err != nil { // no stop waits for an event that is wanted later
			t.Error(err)
		}
		stop()
		wait(time.Minute)
		f = forward(t, l, p, opt)
		wait(2 * time.Hour)
		calls := h.of(1)
		if len(calls) != 5 || len(l.left()) != 0 || len(l.parked) != 0 {
			t.Fatalf("called at %v, left %v, parked %v", calls, l.left(), l.parked)
		}
		for i, least := range []time.Duration{time.Hour, time.Hour + time.Millisecond, time.Hour} {
			if got := calls[i+2] - calls[i+1]; got < least || got > least+2*time.Minute {
				t.Errorf("call %d came after %v, want %v", i+3, got, least)
			}
		}
		if s := f.Status(); s.Failing != 0 {
			t.Errorf("%+v: want no failure", s)
		}
	})
}

// TestManyEventsThatAreWantedLaterDelayNoOther has them due at once.
func TestManyEventsThatAreWantedLaterDelayNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f := forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			if h.note(row) == 0 && row.Seq <= 5000 {
				return false, timer.Later(time.Hour)
			}
			return false, nil
		}}}})
		l.add(f, slices.Repeat([]string{"a"}, 5000)...)
		wait(time.Hour)
		l.add(f, "a", "b")
		wait(10 * time.Second)
		for _, seq := range []int64{5001, 5002} {
			if calls := h.of(seq); len(calls) != 1 || calls[0] > time.Hour+5*time.Second { // by seconds while thousands wait, see Handler
				t.Errorf("row %d was handled at %v", seq, calls)
			}
		}
		if left := l.left(); len(left) != 0 {
			t.Errorf("%d are left: %v", len(left), slices.Max(left))
		}
	})
}
