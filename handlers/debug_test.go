package handlers_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

func TestRefusalsAreWarnings(t *testing.T) {
	t.Parallel()
	var log logbuf.Buffer
	d := newHarness()
	d.log = slog.NewTextHandler(&log, nil)
	_, stop, ended := d.start(t, routing)
	d.deliver(`{"id":"c-1","tenantId":"acme","correlationId":"req-1","type":"X"}`)
	d.deliver("hello")
	for range 9 {
		d.deliver(`{"id":"c-2","tenantId":"acme","type":"Y"}`)
	}
	text := log.Take()
	for _, want := range []string{
		"level=WARN msg=\"messages refused\" tenant_id=acme reason=unknown_type count=1 first_message_id=c-1 first_correlation_id=req-1 first_dead_letter_id=",
		"level=WARN msg=\"messages refused\" tenant_id=_ reason=not_json count=1 first_message_id=original-id first_correlation_id=\"\" first_dead_letter_id=",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.Take(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "tenant_id=acme reason=unknown_type count=10 first_message_id=c-1") {
		t.Errorf("at the stop: %s", text)
	}
}

// TestNoStackInALine has a handler panic, one in each place where that is recovered,
// and one fail with an error that has a stack of its own: the log says why, and no
// line at the level info or above has a stack in it.
func TestNoStackInALine(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*harness){
		"of a handler": func(d *harness) { d.apply = func(any) error { panic("the reason") } },
		"of a middleware": func(d *harness) {
			d.middleware = []message.HandlerMiddleware{func(message.HandlerFunc) message.HandlerFunc {
				return func(*message.Message) ([]*message.Message, error) { panic(errors.New("the reason")) }
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
				synctest.Test(t, func(t *testing.T) {
					log := new(logbuf.Buffer)
					d := newHarness()
					d.log = slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})
					fail(d)
					d.run(t, routing)
					if acked, waits := d.deliver(string(envelope.Schedule(command))), d.waits(t, "acme"); !acked || waits.failed != 1 {
						t.Errorf("acked %t, %+v", acked, waits)
					}
					stacks, warned := 0, false
					for line := range strings.Lines(log.String()) {
						if strings.Contains(line, "debug_test.go:") {
							stacks++
							if !strings.Contains(line, "level=DEBUG") {
								t.Errorf("a stack in %s", line)
							}
						}
						warned = warned || strings.Contains(line, "level=WARN") && strings.Contains(line, "the reason")
					}
					if !warned || stacks > 0 != (level == slog.LevelDebug) {
						t.Errorf("at %v the reason was logged: %t, and %d stacks", level, warned, stacks)
					}
				})
			}
		})
	}
}
