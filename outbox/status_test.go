package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
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

// TestTheLogNamesEachThatFails has handlers that fail and panic, and one that refuses events of
// a tenant as another one does: a line a minute for each, with a tenant, a call and the error,
// and each stack once.
func TestTheLogNamesEachThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fails := func(err error) func(context.Context, outbox.Row) (bool, error) {
			return func(context.Context, outbox.Row) (bool, error) { return false, err }
		}
		panics := func(context.Context, outbox.Row) (bool, error) { panic("the map is nil") }
		refuses := fails(timer.Invalid(timer.ReasonRefused, "no such order"))
		l, handlers := new(table), []outbox.Handler{
			{Prefix: "a-", Handle: fails(errors.New("no such table"))},
			{Prefix: "b-", Handle: panics},
			{Prefix: "c-", Handle: fails(errors.New("no such column"))},
			{Prefix: "d-", Handle: refuses},
			{Prefix: "e-", Handle: refuses},
		}
		for i := range handlers {
			handlers[i].MaxDelay = 10 * time.Second
			for n := range 20 {
				l.append(fmt.Sprint("acme/", handlers[i].Prefix, n))
			}
		}
		l.append("acme/x-1", "acme/x-2", "acme/y-1")
		_, log, stop := logged(t, l, new(model), outbox.Options{Handlers: handlers})
		time.Sleep(time.Second)
		for _, want := range []string{
			`prefix=a- count=1 tenant_id=acme service_call_id=a-`, `error="no such table"`,
			`prefix=b- count=1 tenant_id=acme service_call_id=b-`, `error="the handler panicked: the map is nil"`,
			`prefix=c- count=1 tenant_id=acme service_call_id=c-`, `error="no such column"`,
			`prefix=d- tenant_id=acme count=1 service_call_id=d-`, `prefix=e- tenant_id=acme count=1 service_call_id=e-`,
			`prefix=x- count=1 tenant_id=acme service_call_id=x-`, `prefix=y- count=1 tenant_id=acme service_call_id=y-`,
			`error="no handler of OnDue in this process has a prefix of its service call id: it waits for an instance that has one"`,
		} {
			if got := strings.Count(log.String(), want); got < 1 {
				t.Errorf("no line with %s", want)
			}
		}
		time.Sleep(5 * time.Minute)
		stop()
		lines := log.String()
		for _, h := range handlers[:3] {
			if n := strings.Count(lines, "prefix="+h.Prefix); n < 10 || n > 13 {
				t.Errorf("%d lines of %s in five minutes, want two a minute", n, h.Prefix)
			}
		}
		if n := strings.Count(lines, "stack="); n != 1 || strings.Count(lines, "panicked\"") != 1 {
			t.Errorf("%d stacks, want 1", n)
		}
		if t.Failed() {
			t.Log(lines)
		}
	})
}

// TestTheLogNamesEachDestinationThatFails of a broker that takes other events.
func TestTheLogNamesEachDestinationThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), &model{publish: func(m broker.Message) error {
			if m.Topic == "works" {
				return nil
			}
			return errors.New("the queue of " + m.Topic + " is full")
		}}
		f, log, stop := logged(t, l, p, outbox.Options{})
		l.add(f, "acme/1", "acme/1", "works", "beta/2", "globex/3")
		time.Sleep(30 * time.Second)
		stop()
		for _, topic := range []string{"acme/1", "beta/2", "globex/3"} {
			tenant, call, _ := strings.Cut(topic, "/")
			want := fmt.Sprintf(`destination=%s count=1 tenant_id=%s service_call_id=%s`, topic, tenant, call)
			if n := strings.Count(log.String(), "destination="+topic); n != 2 || !strings.Contains(log.String(), want) || !strings.Contains(log.String(), `error="the queue of `+topic+` is full"`) {
				t.Errorf("%d lines of %s, want two, one with %q", n, topic, want)
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
}
