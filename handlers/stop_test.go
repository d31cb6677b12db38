package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// TestStopLetsMessagesInFlightFinish stops while a command is being stored, at
// the first try, and at one that the router makes after a failure.
func TestStopLetsMessagesInFlightFinish(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) { stopInFlight(t, 0) })
	t.Run("tried again", func(t *testing.T) { stopInFlight(t, 1) })
}

func stopInFlight(t *testing.T, failures int) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		entered := make(chan struct{})
		h := handlers.New(&slowStore{entered: entered, failures: failures}, d.openInbox(t), routing, d, d, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), handlers.Options{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		<-h.Running()
		later := command
		later.TimestampMS, later.DueAt = time.Now().UnixMilli(), time.Now().Add(time.Hour)
		acked := make(chan bool, 1)
		go func() { acked <- d.deliver(string(envelope.Schedule(later))) }()
		<-entered
		stop()
		if !<-acked {
			t.Error("a healthy message was nacked because of the stop")
		}
		if len(d.dead) != 0 {
			t.Error("a healthy message became a dead letter because of the stop")
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A slowStore takes a second, and minds its context.
type slowStore struct {
	entered  chan struct{} // closed when a call is at work that will succeed
	failures int           // calls that fail at once, before
}

func (s *slowStore) Schedule(ctx context.Context, _ time.Time, _ ...timer.ScheduleTimer) ([]timer.Result, error) {
	if s.failures > 0 {
		s.failures--
		return nil, errors.New("database is locked")
	}
	close(s.entered)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
		return []timer.Result{{Outcome: timer.DidSchedule}}, nil
	}
}

func (s *slowStore) PutInbox(context.Context, time.Time, ...timer.InboxMessage) error {
	panic("not expected")
}

func (s *slowStore) Cancel(context.Context, time.Time, ...timer.CancelTimer) ([]timer.Result, error) {
	panic("not expected")
}

func TestStopWhileStarting(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		h := handlers.New(d, d.openInbox(t), routing, d, d, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), handlers.Options{})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestStopEndsAllWaits has a thousand messages wait for the store, and one for the
// broker to take its dead letter.
func TestStopEndsAllWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.batched = true
		d.apply = func(any) error { return errors.New("disk full") }
		d.works = func(context.Context) error { return errors.New("disk full") }
		d.publish = func(ctx context.Context, _ string, _ *message.Message) error {
			<-ctx.Done()
			return ctx.Err()
		}
		h, stop, ended := d.start(t, routing)
		invalid := d.send([]byte("hello"))
		var waiting []*message.Message
		for i := range 1000 {
			waiting = append(waiting, d.send([]byte(order("acme", i))))
		}
		time.Sleep(3 * time.Second)
		if !h.Paused() {
			t.Error("the circuit breaker is closed")
		}
		stop()
		began := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took, most := time.Since(began), 10*time.Second+handlers.StopTimeout; took > most {
			t.Errorf("the stop took %v, want at most %v", took, most)
		}
		for i, m := range append(waiting, invalid) {
			select {
			case <-m.Nacked():
			default:
				t.Fatalf("message %d was not nacked", i)
			}
		}
	})
}

// TestStopOfAStoreThatHangs ends although a commit does not.
func TestStopOfAStoreThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		release := make(chan struct{})
		d.apply = func(any) error { <-release; return nil }
		_, stop, ended := d.start(t, routing)
		d.send([]byte(order("acme", 1)))
		synctest.Wait()
		stop()
		began := time.Now()
		<-ended
		if took, most := time.Since(began), 10*time.Second+handlers.StopTimeout; took > most {
			t.Errorf("the stop took %v, want at most %v", took, most)
		}
		close(release)
	})
}
