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
					if d.deliver(string(envelope.Schedule(command))) {
						t.Error("acked")
					}
					stacks, warned := 0, false
					for line := range strings.Lines(log.String()) {
						if strings.Contains(line, "panic_test.go:") {
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
