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

// A listener is a tail to which a test talks, and the command it waits for.
type listener struct {
	tail
	asked timer.ScheduleTimer
	cmd   command
	done  *published
}

func listening(due time.Time) (l *listener, events, deadLetters chan *message.Message) {
	events, deadLetters = make(chan *message.Message, 8), make(chan *message.Message, 8)
	asked := timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: 1, CommandID: "command-1"},
		DueAt:   due,
	}
	cmd := command{id: asked.CommandID, topic: "timer.commands", body: envelope.Schedule(asked)}
	l = &listener{tail: tail{events: events, deadLetters: deadLetters}, asked: asked, cmd: cmd, done: publishedSchedule(asked, cmd)}
	return l, events, deadLetters
}

func (l *listener) wait(t *testing.T, timeout time.Duration) error {
	return l.await(t.Context(), time.Now, l.asked, l.cmd, timeout, l.done)
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

// Teams share topics, so a wait must take its own event for nobody else's.
func TestWaitPassesOverWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Hour + time.Nanosecond) // kept rounded up
		l, events, deadLetters := listening(due)
		events <- message.NewMessage("junk", []byte("\xff{"))
		events <- message.NewMessage("other", []byte(`{"type":"OrderPlaced"}`))
		events <- eventAt("order-2", due)
		events <- eventAt("order-1", due.Add(-time.Minute))
		deadLetters <- deadLetter("{}", "command-2")

		began := time.Now()
		time.AfterFunc(time.Hour+5*time.Millisecond, func() { events <- eventAt("order-1", due) })
		if err := l.wait(t, time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Hour+5*time.Millisecond {
			t.Errorf("an event ended the wait after %v", took)
		}
		if l.done.Result != resultReached || *l.done.LatenessMS != 2 || *l.done.ArrivalDelayMS != 4 {
			t.Errorf("noted %s, %d ms late, here after %d ms", l.done.Result, *l.done.LatenessMS, *l.done.ArrivalDelayMS)
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
			l, _, _ := listening(time.Now().Add(tt.in))
			began := time.Now()
			err := l.wait(t, 30*time.Second)
			if took := time.Since(began); took != tt.want {
				t.Errorf("due in %v: waited %v, want %v", tt.in, took, tt.want)
			}
			if err == nil || l.done.Result != resultTimeout {
				t.Errorf("due in %v: result %s, error %v", tt.in, l.done.Result, err)
			}
		})
	}
}

func TestWaitKnowsItsDeadLetterByIDOrBody(t *testing.T) {
	t.Parallel()
	l, _, _ := listening(noon)
	for _, m := range []*message.Message{deadLetter("{}", "command-1"), deadLetter(string(l.cmd.body), "")} {
		l, _, deadLetters := listening(noon)
		deadLetters <- m
		err := l.wait(t, time.Hour)
		if l.done.Result != resultDeadLetter || l.done.Reason != "refused" || err == nil {
			t.Fatalf("noted %+v, error %v", l.done, err)
		}
		if want := "acme.order-1: refused: no ?[31mservice call (refused)"; err.Error() != want {
			t.Errorf("error %q, want %q, which upsets no terminal", err, want)
		}
	}
}

func TestWaitEndsWhenTheBrokerHangsUp(t *testing.T) {
	t.Parallel()
	l, events, _ := listening(noon)
	close(events)
	if err := l.wait(t, time.Hour); err == nil || !strings.Contains(err.Error(), "hung up") {
		t.Errorf("error %v, want that the broker hung up", err)
	}
}
