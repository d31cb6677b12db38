package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A waiter waits for the answers that a test gives to its command.
type waiter struct {
	answers
	command *message.Message
	done    *published
}

func waiting(due time.Time) (w *waiter, events, deadLetters chan *message.Message) {
	events, deadLetters = make(chan *message.Message, 8), make(chan *message.Message, 8)
	schedule := timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: 1, CommandID: "command-1"},
		DueAt:   due,
	}
	m := message.NewMessage(schedule.CommandID, envelope.Schedule(schedule))
	m.Metadata = envelope.ScheduleHeaders(schedule)
	w = &waiter{answers{events: events, deadLetters: deadLetters}, m, newPublished(m, schedule.Version)}
	w.done.DueAt = stamp(due)
	return w, events, deadLetters
}

func (w *waiter) run(t *testing.T, timeout time.Duration) error {
	return w.wait(t.Context(), time.Now, w.command, timeout, w.done)
}

func eventAt(call timer.ServiceCallID, due time.Time) *message.Message {
	return message.NewMessage("event", envelope.Reached(timer.DueTimeReached{
		Key: timer.Key{TenantID: "acme", ServiceCallID: call}, CommandID: "command", DueAt: due, ReachedAt: due.Add(3 * time.Millisecond),
	}))
}

func deadLetter(body, originalID string) *message.Message {
	m := message.NewMessage("dead", []byte(body))
	m.Metadata.Set(envelope.HeaderDeadLetterOriginalID, originalID)
	m.Metadata.Set(envelope.HeaderDeadLetterReason, "refused")
	m.Metadata.Set(envelope.HeaderDeadLetterDetail, "no \x1b[31mservice call")
	return m
}

// Topics are shared, so a wait must skip the events of other commands.
func TestWaitSkipsOtherEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Hour + time.Nanosecond) // kept rounded up
		w, events, deadLetters := waiting(due)
		events <- message.NewMessage("junk", []byte("\xff{"))
		events <- message.NewMessage("other", []byte(`{"type":"OrderPlaced"}`))
		events <- eventAt("order-2", due)
		events <- eventAt("order-1", due.Add(-time.Minute))
		deadLetters <- deadLetter("{}", "command-2")

		began := time.Now()
		time.AfterFunc(time.Hour+5*time.Millisecond, func() { events <- eventAt("order-1", due) })
		if err := w.run(t, time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Hour+5*time.Millisecond {
			t.Errorf("an event ended the wait after %v", took)
		}
		if w.done.Result != resultReached || *w.done.LatenessMS != 2 || *w.done.ArrivalDelayMS != 4 {
			t.Errorf("result %s, %d ms late, here after %d ms", w.done.Result, *w.done.LatenessMS, *w.done.ArrivalDelayMS)
		}
	})
}

// The timeout counts from the due time, or from now if that is past.
func TestWaitEndsAfterTheTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want time.Duration }{
		{time.Hour, time.Hour + 30*time.Second},
		{-time.Hour, 30 * time.Second},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			w, _, _ := waiting(time.Now().Add(tt.in))
			began := time.Now()
			err := w.run(t, 30*time.Second)
			if took := time.Since(began); took != tt.want {
				t.Errorf("due in %v: waited %v, want %v", tt.in, took, tt.want)
			}
			if err == nil || w.done.Result != resultTimeout {
				t.Errorf("due in %v: result %s, error %v", tt.in, w.done.Result, err)
			}
		})
	}
}

func TestWaitKnowsItsDeadLetterByIDOrBody(t *testing.T) {
	t.Parallel()
	w, _, _ := waiting(noon)
	for _, m := range []*message.Message{deadLetter("{}", "command-1"), deadLetter(string(w.command.Payload), "")} {
		w, _, deadLetters := waiting(noon)
		deadLetters <- m
		err := w.run(t, time.Hour)
		if w.done.Result != resultDeadLetter || w.done.Reason != "refused" || err == nil {
			t.Fatalf("result %+v, error %v", w.done, err)
		}
		if want := "acme.order-1: refused: no ?[31mservice call (refused)"; err.Error() != want {
			t.Errorf("error %q, want %q, which terminals do not interpret", err, want)
		}
	}
}

func TestWaitEndsWithItsSubscription(t *testing.T) {
	t.Parallel()
	w, events, _ := waiting(noon)
	close(events)
	if err := w.run(t, time.Hour); err == nil || !strings.Contains(err.Error(), "closed the subscription") {
		t.Errorf("error %v, want that the subscription was closed", err)
	}
}
