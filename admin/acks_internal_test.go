package admin

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// TestLastAcksAreRemembered, and the first is forgotten for the one too many.
func TestLastAcksAreRemembered(t *testing.T) {
	t.Parallel()
	var a acks
	events := make([]*message.Message, maxAcks+1)
	for i := range events {
		events[i] = message.NewMessage(uuid.NewString(), nil)
	}
	began := time.Now()
	a.add(began, events[:2])
	a.add(began.Add(time.Second), events[2:])
	for i, want := range map[int]time.Time{0: {}, 1: began, 2: began.Add(time.Second), maxAcks: began.Add(time.Second)} {
		if got := a.of(events[i].UUID); !got.Equal(want) {
			t.Errorf("event %d: %v, want %v", i, got, want)
		}
	}
	if got := a.of(uuid.NewString()); !got.IsZero() {
		t.Errorf("of none: %v", got)
	}
}

// TestPublishedStepSaysWhen, if that is known, and how late it was.
func TestPublishedStepSaysWhen(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for acked, want := range map[time.Time]step{
		{}:                            {What: "Published", Explained: "the broker has acknowledged the event; when is known of the last events of this instance", Tone: "done"},
		due.Add(3 * time.Millisecond): {What: "Published", Explained: "the broker has acknowledged the event, 3 ms after the due time", At: due.Add(3 * time.Millisecond), Tone: "done"},
		due.Add(40 * time.Second):     {What: "Published", Explained: "the broker has acknowledged the event, 40 s after the due time", At: due.Add(40 * time.Second), Tone: "late"},
	} {
		l := &life{Entry: timer.Entry{DueAt: due}, Delivery: timer.Delivery{State: timer.Published}, AckedAt: acked}
		l.deliver(due.Add(time.Minute))
		if diff := cmp.Diff([]step{want}, l.Steps); diff != "" {
			t.Errorf("%v (-want +got):\n%s", acked, diff)
		}
	}
}
