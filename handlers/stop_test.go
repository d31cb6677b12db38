package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

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
		h := handlers.New(&slowStore{entered: entered, failures: failures}, routing, d, d, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), handlers.Options{})
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

func (s *slowStore) Cancel(context.Context, time.Time, ...timer.CancelTimer) ([]timer.Result, error) {
	panic("not expected")
}

func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		h := handlers.New(d, routing, d, d, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), handlers.Options{})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
