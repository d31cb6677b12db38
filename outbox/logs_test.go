package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTheLogNamesEachThatFails has handlers that fail and panic, and one that refuses events of
// a tenant as another one does: a line a minute for each, with a tenant, a call and the error,
// and each stack once.
func TestTheLogNamesEachThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbuf.Buffer
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
		f := outbox.New(outbox.Single(l), new(model), payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(&log, nil)), outbox.Options{Handlers: handlers})
		stop := start(t, f)
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
		var log logbuf.Buffer
		l, p := new(table), &model{publish: func(m broker.Message) error {
			if m.Topic == "works" {
				return nil
			}
			return errors.New("the queue of " + m.Topic + " is full")
		}}
		f := outbox.New(outbox.Single(l), p, payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(&log, nil)), outbox.Options{})
		stop := start(t, f)
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
