package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var due = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func eventDue(at time.Time) *message.Message {
	return message.NewMessage(envelope.EventID(timer.DueTimeReached{DueAt: at}), nil)
}

func TestLatenessOfPublishedEvents(t *testing.T) {
	t.Parallel()
	c := new(Counters)
	for _, late := range []time.Duration{-time.Second, 0, time.Millisecond, time.Millisecond + 1, time.Second, 36 * time.Second, time.Hour} {
		c.published(due.Add(late), []*message.Message{eventDue(due)})
	}
	if late, _, _ := c.published(due, []*message.Message{message.NewMessage("another's", nil)}); late != 0 {
		t.Errorf("an id without a time is late: %d", late)
	}
	want := Lateness{Events: 7, Max: time.Hour, Sum: time.Hour + 37*time.Second + 2*time.Millisecond + 1}
	want.Buckets[0], want.Buckets[1], want.Buckets[9], want.Buckets[14], want.Buckets[15] = 3, 1, 1, 1, 1
	got := c.Lateness()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if first, again := c.TakeWorst(), c.TakeWorst(); first != time.Hour || again != 0 {
		t.Errorf("the worst is %v, and then %v", first, again)
	}
	if n := c.Forwarded(); n != 8 {
		t.Errorf("%d events forwarded, want 8", n)
	}
	for share, want := range map[float64]time.Duration{0: time.Millisecond, 0.4: time.Millisecond, 0.5: 2 * time.Millisecond, 0.7: time.Second, 0.8: time.Minute, 1: time.Hour} {
		if q := got.Quantile(share); q != want {
			t.Errorf("quantile %v is %v, want %v", share, q, want)
		}
	}
	if q := (Lateness{}).Quantile(0.99); q != 0 {
		t.Errorf("the quantile of nothing is %v", q)
	}
	if n, want := len(LatenessBounds()), len(got.Buckets)-1; n != want {
		t.Errorf("%d bounds, want %d", n, want)
	}
}

// TestWarnsOnceAMinuteOfLateEvents has events published late 14 times a second.
func TestWarnsOnceAMinuteOfLateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		l := newLateLog(slog.New(slog.NewTextHandler(&logs, nil)))
		c := new(Counters)
		first := eventDue(due)
		published := func(at time.Time, events ...*message.Message) {
			late, first, by := c.published(at, events)
			warnLate(l, late, first, by)
		}
		for i := range 1200 {
			published(due.Add(2*time.Second+time.Duration(i)*time.Millisecond), eventDue(due.Add(time.Hour)), first, first)
			time.Sleep(70 * time.Millisecond)
		}
		synctest.Wait()
		l.Flush()
		l.Flush()
		lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
		for i, want := range []string{"count=2 first_late_by=2s", "count=1716 first_late_by=2s", "count=2 first_late_by=2.858s", "count=684 first_late_by=2.858s"} {
			if len(lines) != 4 || !strings.Contains(lines[i], want+" first_event_id="+first.UUID) {
				t.Fatalf("line %d of %d lacks %q:\n%s", i, len(lines), want, logs.String())
			}
		}
		logs.Reset()
		published(due.Add(tooLate), first)
		time.Sleep(time.Hour)
		if logs.Len() > 0 {
			t.Errorf("an event in time is logged: %s", logs.String())
		}
	})
}
