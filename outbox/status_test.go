package outbox_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// TestStatusFindsAForwarderThatIsStuck has a broker that does not answer for one
// topic, while others go on or not, and a table that can't be changed or read.
func TestStatusFindsAForwarderThatIsStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		hanging, hang := "", make(chan struct{})
		p.takes = func(m broker.Message) time.Duration {
			return map[bool]time.Duration{true: 5 * time.Second}[m.Topic == "mute"]
		}
		l.fail = func(op string) error {
			if op == hanging {
				<-hang
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{Interval: time.Second})
		after := func(d time.Duration) outbox.Status {
			wait(d)
			return f.Status()
		}
		add := func(topic string) { l.add(f, topic) }
		if got := after(time.Minute); got != (outbox.Status{Owns: true}) {
			t.Errorf("idle: %+v", got)
		}
		add("a")
		if got := after(time.Second); got.Stuck != 0 {
			t.Errorf("after an event: %+v", got)
		}
		add("mute")
		if got := after(3 * time.Second); got.Stuck < 2*time.Second {
			t.Errorf("with an event that no one answers: %+v", got)
		}
		add("a")
		if got := after(time.Second); got.Stuck > time.Second {
			t.Errorf("with one that no one answers, and others that leave: %+v", got)
		}
		if got := after(time.Minute); got.Stuck != 0 {
			t.Errorf("idle again: %+v", got)
		}
		for _, op := range []string{"delete", "head"} {
			hanging, hang = op, make(chan struct{})
			add("a")
			if got := after(time.Minute); got.Stuck < 59*time.Second {
				t.Errorf("with a table that hangs at %s: %+v", op, got)
			}
			hanging = ""
			close(hang)
			if got := after(time.Second); got.Stuck != 0 {
				t.Errorf("with a table that goes on after %s: %+v", op, got)
			}
		}
	})
}

// TestStatusSaysWhatATopicRefusesForLong has a topic that takes nothing for an hour, such as
// a queue that is full, and another one whose events were deleted meanwhile.
func TestStatusSaysWhatATopicRefusesForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		l, p := new(table), &model{publish: failIf(errors.New("the queue is full"), func(m broker.Message) bool { return m.Topic != "good" && full.Load() })}
		f := forward(t, l, p, outbox.Options{})
		l.add(f, "full", "good")
		time.Sleep(9 * time.Minute)
		if got := f.Status(); got.Failing != 0 {
			t.Errorf("after nine minutes: %+v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := f.Status(); got.Failing != 1 || !strings.Contains(got.Failed.Error(), "the queue is full") {
			t.Errorf("after eleven minutes: %+v", got)
		}
		full.Store(false)
		time.Sleep(time.Minute)
		if got := f.Status(); got.Failing != 0 {
			t.Errorf("when there is room: %+v", got)
		}
		full.Store(true)
		l.add(f, "full")
		time.Sleep(20 * time.Minute)
		if got := f.Status(); got.Failing != 1 {
			t.Errorf("when it is full again: %+v", got)
		}
		rows, err := l.Deferred(t.Context(), time.Now().Add(time.Hour), "", 10, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("deferred %v, %v", rows, err)
		}
		if err := l.Delete(t.Context(), rows[0].Place); err != nil { // as when its tenant is forgotten
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if got := f.Status(); got.Failing != 0 {
			t.Errorf("without a row for hours: %+v", got)
		}
	})
}
